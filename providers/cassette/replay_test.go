package cassette

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// player plays interactions, each "request body → answer body".
func player(cfg PlayerConfig, pairs ...string) *http.Client {
	c := &Cassette{Version: version}
	for i := 0; i < len(pairs); i += 2 {
		c.Interactions = append(c.Interactions, Interaction{
			Transport: overHTTP,
			Request:   Request{Method: "POST", URL: "http://vendor.test/say", Headers: map[string]string{"content-type": "application/json"}, Body: []byte(pairs[i])},
			Response:  Response{Status: 200, Headers: map[string]string{"content-type": "text/plain"}, Body: []byte(pairs[i+1])},
		})
	}
	cfg.Name, cfg.Cassette = "c.json", c
	return &http.Client{Transport: NewPlayer(cfg)}
}

func TestReplay(t *testing.T) {
	const same = `{"a":1}`
	for _, tt := range []struct {
		name    string
		cfg     PlayerConfig
		tape    []string
		say     []string
		want    []string // what comes; the last one may be an error
		nothing string   // of the error
	}{
		{"once", PlayerConfig{}, []string{same, "x"}, []string{same}, []string{"200 x"}, ""},
		{"a second time", PlayerConfig{}, []string{same, "x"}, []string{same, same}, []string{"200 x"},
			"no unused match in c.json (1 recorded) for POST http://vendor.test/say: all its responses have been used"},
		{"the first unused counts", PlayerConfig{}, []string{same, "x", "{}", "y", same, "z"}, []string{same, same, "{}"}, []string{"200 x", "200 z", "200 y"}, ""},
		{"the form counts", PlayerConfig{}, []string{`"on 2026-01-02"`, "x"}, []string{`"on 2027-03-04"`}, []string{"200 x"}, ""},
		{"another request", PlayerConfig{}, []string{`{"b":1,"c":1}`, "x", `{"a":2}`, "y"}, []string{same}, nil,
			"(2 recorded) for POST http://vendor.test/say: the nearest unused one differs:\n  a: recorded 2, now 1"},
		{"nothing recorded", PlayerConfig{}, nil, []string{same}, nil, "(0 recorded) for POST http://vendor.test/say: it is empty"},
		{"in order", PlayerConfig{InOrder: true}, []string{same, "x", "{}", "y"}, []string{"[]", `{"other":1}`}, []string{"200 x", "200 y"}, ""},
		{"in order, one more", PlayerConfig{InOrder: true}, []string{same, "x"}, []string{same, same}, []string{"200 x"}, "all its responses have been used"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := player(tt.cfg, tt.tape...)
			for i, text := range tt.say {
				got, err := say(c, "http://vendor.test", text)
				switch {
				case i < len(tt.want):
					if err != nil || got != tt.want[i] {
						t.Fatalf("request %d: %q, %v; want %q", i+1, got, err, tt.want[i])
					}
				default:
					e, ok := errors.AsType[*llm.Error](err)
					if !ok || !strings.Contains(e.Message, tt.nothing) || e.Retryable || e.Next == "" {
						t.Fatalf("request %d: %q, %v; want %s", i+1, got, err, tt.nothing)
					}
				}
			}
		})
	}
}

// In order, the address still counts: what is asked beside the conversation does not take its answers.
func TestInOrderByAddress(t *testing.T) {
	c := player(PlayerConfig{InOrder: true}, `{}`, "x")
	if _, err := c.Get("http://vendor.test/models"); err == nil || !strings.Contains(err.Error(), `method: recorded "POST", now "GET"`) {
		t.Errorf("%v", err)
	}
}

func TestAReplayEndsWithItsRequest(t *testing.T) {
	c := player(PlayerConfig{Split: func(int) int { return 1 }}, "x", "hello")
	ctx, cancel := context.WithCancelCause(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://vendor.test/say", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if n, err := res.Body.Read(make([]byte, 8)); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	enough := errors.New("enough")
	cancel(enough)
	if _, err := res.Body.Read(make([]byte, 8)); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	if _, err := c.Transport.RoundTrip(req); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
}

// Whatever is said and however the answers are cut: replay says the same as the server did, and needs no server.
func TestWhatIsRecordedIsPlayed(t *testing.T) {
	answers := map[string]string{}
	s := record(t, "", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, answers[string(b)])
	})
	path := filepath.Join(t.TempDir(), "c.json")
	rapid.Check(t, func(rt *rapid.T) {
		_ = os.Remove(path) // of the round before
		r, err := NewRecorder(RecorderConfig{Path: path})
		if err != nil {
			rt.Fatal(err)
		}
		recorded := &http.Client{Transport: r.Around(s.client.Transport.(*recording).next)}
		asked := rapid.SliceOfNDistinct(rapid.StringMatching(`\{"q":"[xyz]{1,9}"\}`), 1, 4, rapid.ID[string]).Draw(rt, "asked")
		for _, q := range asked {
			answers[q] = rapid.String().Draw(rt, "answer")
			if _, err := say(recorded, s.url, q); err != nil {
				rt.Fatal(err)
			}
		}
		c, err := Load(path)
		if err != nil {
			rt.Fatal(err)
		}
		split := rapid.IntRange(1, 5)
		p := &http.Client{Transport: NewPlayer(PlayerConfig{Name: "c", Cassette: c, Split: func(int) int { return split.Draw(rt, "piece") }})}
		for _, q := range rapid.Permutation(asked).Draw(rt, "asked again") {
			if got, err := say(p, s.url, q); err != nil || got != "200 "+answers[q] {
				rt.Errorf("%s: %q, %v; want %q", q, got, err, answers[q])
			}
		}
	})
}
