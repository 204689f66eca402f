package cassette_test

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/cassette"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/chat"
	"github.com/gantry-agent/gantry/providers/protocol/gemini"
	"github.com/gantry-agent/gantry/providers/protocol/messages"
	"github.com/gantry-agent/gantry/providers/protocol/ollama"
	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// list writes what the recorded answers mean anew.
var list = flag.Bool("events", false, "write testdata/*.txt anew")

// formats are the wire formats whose answers lie in testdata, in situations that a session of e2e has recorded:
// go test ./e2e -run TestRecordSituations -record.
var formats = []struct {
	name, base, model string
	protocol          protocol.Protocol
}{
	{"openai-responses", "http://vendor.test/v1", "gpt-5.4", responses.Protocol{}},
	{"openai-chat", "http://vendor.test/v1", "own-model", chat.Protocol{}},
	{"anthropic", "http://vendor.test/v1", "claude-opus-4-8", messages.Protocol{}},
	{"gemini", "http://vendor.test/v1beta", "gemini-3.5-flash", gemini.Protocol{}},
	{"ollama", "http://vendor.test", "qwen3:8b", ollama.Protocol{}},
}

var situations = []string{
	"cached", "cut", "image", "malformed", "overflow", "parallel", "picture", "rate-limit", "reasoning", "text", "tool-call", "tool-loop",
}

// everywhere are the situations whose answers are cut at each byte.
var everywhere = []string{"cut", "malformed", "parallel", "reasoning", "text", "tool-loop"}

// Each answer that lies in testdata leads to the events that stand beside it, however the network cuts it: whole, byte by
// byte, in pieces; and for each kind of answer in two at each place and at random.
func TestSituations(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			var listing strings.Builder
			for _, name := range situations {
				fmt.Fprintf(&listing, "%s\n", name)
				c, err := cassette.Load(filepath.Join("testdata", f.name, name+".json"))
				if err != nil {
					t.Fatal(err)
				}
				req := &protocol.Request{
					Namespace: f.name, Model: protocol.Model{ID: f.model, Input: []string{"image"}},
					Request: &llm.Request{
						Model: f.model, Tools: []llm.Tool{{Name: "lookup"}, {Name: "picture"}},
						Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "look words up"}}}},
					},
				}
				n := 0
				for _, in := range c.Interactions {
					if !asks(t, f.protocol, req, in) {
						continue
					}
					n++
					whole := played(t, f.protocol, f.base, req, in, nil)
					fmt.Fprintf(&listing, "  %d: %d %s\n", n, in.Response.Status, whole)
					for _, split := range []func(int) int{func(int) int { return 1 }, func(left int) int { return 1 + left/2 }, func(left int) int { return 7 }} {
						if got := played(t, f.protocol, f.base, req, in, split); got != whole {
							t.Errorf("%s, answer %d: cut another way it gives\n%s\nand whole\n%s", name, n, got, whole)
						}
					}
					// The others are made of the same pieces.
					if in.Response.Status != 200 || n > 1 && name != "reasoning" || !slices.Contains(everywhere, name) {
						continue
					}
					if got := protocoltest.Splits(t, f.protocol, req, in.Response.Body); got != whole && !in.Response.Cut {
						t.Errorf("%s, answer %d: the route gives\n%s\nand the format\n%s", name, n, whole, got)
					}
				}
				if n == 0 {
					t.Errorf("%s: no request of it goes to the conversation", name)
				}
			}
			compare(t, filepath.Join("testdata", f.name+".txt"), listing.String())
		})
	}
}

// asks tells a request of the conversation from what is asked beside it.
func asks(t *testing.T, p protocol.Protocol, req *protocol.Request, in cassette.Interaction) bool {
	t.Helper()
	u, err := url.Parse(in.Request.URL)
	if err != nil {
		t.Fatal(err)
	}
	path, _, _ := strings.Cut(p.Path(req), "?")
	return strings.HasSuffix(u.Path, path)
}

// played is what a provider makes of one recorded answer. A try is not repeated.
func played(t *testing.T, p protocol.Protocol, base string, req *protocol.Request, in cassette.Interaction, split func(int) int) string {
	t.Helper()
	player := cassette.NewPlayer(cassette.PlayerConfig{
		Name: "tape", Cassette: &cassette.Cassette{Interactions: []cassette.Interaction{in}}, InOrder: true, Split: split,
	})
	r, err := route.New(route.Config{Protocol: p, Namespace: req.Namespace, BaseURL: base, Transport: route.Transport{Around: player.Instead}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var events []llm.Event
	err = r.Stream(t.Context(), req, 1, func(e llm.Event) error {
		events = append(events, e)
		return nil
	})
	if e, ok := errors.AsType[*llm.Error](err); ok {
		events = append(events, e)
	} else if err != nil {
		t.Fatal(err)
	}
	return protocoltest.Render(req.Namespace, events)
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *list {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test -events writes it", err)
	}
	was, is := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(was), len(is)) {
		if a, b := at(was, i), at(is, i); a != b {
			t.Fatalf("%s, line %d: it is\n%s\nand was\n%s\nIf that is meant, go test -events writes it anew.", path, i+1, b, a)
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// Nothing in testdata is there in vain, and nothing is missing.
func TestEverySituationIsThere(t *testing.T) {
	var want []string
	for _, f := range formats {
		for _, s := range situations {
			want = append(want, filepath.Join("testdata", f.name, s+".json"))
		}
	}
	got, err := filepath.Glob("testdata/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
}
