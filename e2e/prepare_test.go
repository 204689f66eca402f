package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// update writes what is expected anew.
var update = flag.Bool("update", false, "write the files in testdata anew")

// prepared is what `gantry model prepare --json` prints.
type prepared struct {
	Provider, Model, Method, URL string
	Headers                      map[string]string
	Body                         json.RawMessage
}

func prepare(t *testing.T, r *rig.Rig, args ...string) prepared {
	t.Helper()
	var p prepared
	res := r.OK(append([]string{"model", "prepare", "--json"}, args...)...)
	if res.Stderr != "" {
		t.Errorf("prepare says\n%s", res.Stderr)
	}
	if err := json.Unmarshal([]byte(res.Stdout), &p); err != nil {
		t.Fatalf("%v\n%s", err, res.Stdout)
	}
	return p
}

var (
	threadID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	day      = regexp.MustCompile(`<current_date>[0-9-]{10}</current_date>`)
)

// timeless masks what is different from one run to the next: a new thread's id, and the day.
func timeless(body []byte) string {
	return day.ReplaceAllString(threadID.ReplaceAllString(string(body), "<thread>"), "<current_date/>")
}

// around is where two texts begin to differ.
func around(a, b string) (string, string) {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	cut := func(s string) string { return s[max(0, min(at-200, len(s))):min(at+200, len(s))] }
	return cut(a), cut(b)
}

// asShown demands that a vendor got what was shown before.
func asShown(t *testing.T, what string, p prepared, got *vendors.Request) {
	t.Helper()
	if shown, sent := timeless(p.Body), timeless(got.Raw); shown != sent {
		a, b := around(shown, sent)
		t.Errorf("%s: shown\n%s\nsent\n%s", what, a, b)
	}
	u, err := url.Parse(p.URL)
	if err != nil || p.Method != "POST" || u.RequestURI() != got.Path {
		t.Errorf("%s: shown %s %s, sent POST %s (%v)", what, p.Method, p.URL, got.Path, err)
	}
	for name, value := range p.Headers {
		if sent := strings.Join(got.Header.Values(name), ", "); sent != value && value != "<redacted>" && timeless([]byte(sent)) != timeless([]byte(value)) {
			t.Errorf("%s: header %s: shown %q, sent %q", what, name, value, sent)
		}
	}
	for name := range got.Header {
		if _, shown := p.Headers[name]; !shown && name != "Content-Length" && name != "Accept-Encoding" {
			t.Errorf("%s: header %s was sent and not shown", what, name)
		}
	}
}

// last is the id of the newest thread.
func last(t *testing.T, r *rig.Rig) string {
	t.Helper()
	id := threadID.FindString(r.OK("threads", "list", "--json").Stdout)
	if id == "" {
		t.Fatal("there is no thread")
	}
	return id
}

// What prepare shows is what is sent then, byte for byte: the first request of a task, with the tools of all plugins and an
// image, and the next one of a thread that has thought, called and looked.
func TestPreparedIsSent(t *testing.T) {
	for vendor := range vendorBlocks {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			look := vendors.Call{Name: "view_image", Args: map[string]any{"path": "dot.png"}}
			s := vendors.Start(t, vendor,
				vendors.Answer{Reasoning: "Look it up.", Text: "One moment.", Calls: []vendors.Call{onDesk("lookup", "gantry"), look}},
				vendors.Answer{Text: "It is a word."}, vendors.Answer{Text: "As I said."},
			)
			r := rig.New(t, "")
			useVendor(r, vendor, s.URL)
			addOdd(t, r, "desk", "desk", "")
			r.Write("dot.png", dot(t))
			first := []string{"-i", "dot.png", "what is a gantry? <&> é \u2028"}
			if vendorBlocks[vendor].blind {
				first = first[2:]
			}
			shown := prepare(t, r, first...)
			if n := len(s.Requests()); n > 0 {
				t.Fatalf("%d requests were sent", n)
			}
			if list := r.OK("threads", "list", "--json").Stdout; strings.TrimSpace(list) != "[]" {
				t.Errorf("it left a thread: %s", list)
			}
			r.OK(append([]string{"exec"}, first...)...)
			asShown(t, "first", shown, s.Requests()[0])

			id := last(t, r)
			before := r.OK("threads", "list", "--json").Stdout
			shown = prepare(t, r, "--thread", id, "are you sure?")
			blank := prepare(t, r, "--thread", id)
			if after := r.OK("threads", "list", "--json").Stdout; after != before {
				t.Errorf("the thread has changed:\n%s\nwas\n%s", after, before)
			}
			r.OK("resume", id, "are you sure?")
			requests := s.Requests()
			asShown(t, "next", shown, requests[len(requests)-1])
			if strings.Contains(string(blank.Body), "are you sure?") || !strings.Contains(string(blank.Body), "It is a word.") {
				t.Errorf("without a task:\n%s", blank.Body)
			}
		})
	}
}

// A large image of a thread lies beside its log; it is shown as it is sent.
func TestPreparedWithAnArtifact(t *testing.T) {
	t.Parallel()
	look := vendors.Call{Name: "view_image", Args: map[string]any{"path": "noise.png", "detail": "original"}}
	s := vendors.Start(t, "openai-responses", vendors.Answer{Calls: []vendors.Call{look}}, vendors.Answer{Text: "noise"}, vendors.Answer{Text: "noise"})
	r := rig.New(t, "")
	useVendor(r, "openai-responses", s.URL)
	content := noise(t)
	r.Write("noise.png", content)
	r.OK("exec", "what is on it?")
	shown := prepare(t, r, "--thread", last(t, r), "and now?")
	r.OK("resume", "--last", "and now?")
	asShown(t, "next", shown, s.Requests()[2])
	if !strings.Contains(string(shown.Body), base64.StdEncoding.EncodeToString([]byte(content))) {
		t.Error("the image is not in it")
	}
}

// noise is a PNG too large to travel in a message.
func noise(t *testing.T) string {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 700, 700))
	if _, err := rand.NewChaCha8([32]byte{1}).Read(img.Pix); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Without a key a request can be looked at; what is missing is told, and its header says where it belongs.
func TestPrepareWithoutAKey(t *testing.T) {
	t.Parallel()
	header := map[string]string{"anthropic": "X-Api-Key", "gemini": "X-Goog-Api-Key"}
	for vendor := range vendorBlocks {
		s := vendors.Start(t, vendor)
		r := rig.New(t, "")
		useVendor(r, vendor, s.URL)
		keyless(r)
		res := r.OK("model", "prepare", "say hello")
		if want := cmp.Or(header[vendor], "Authorization") + ": <missing>\n"; !strings.HasPrefix(res.Stdout, "POST "+s.URL) || !strings.Contains(res.Stdout, want) {
			t.Errorf("%s: stdout lacks %q:\n%s", vendor, want, res.Stdout)
		}
		if !strings.Contains(res.Stderr, `environment variable "VENDOR_KEY" is not set`) || !strings.Contains(res.Stderr, "Next: set VENDOR_KEY") {
			t.Errorf("%s: stderr\n%s", vendor, res.Stderr)
		}
		if res := r.Gantry("exec", "say hello"); res.Code != 1 || !strings.Contains(res.Stderr, "VENDOR_KEY") {
			t.Errorf("%s: exec without a key: %d\n%s", vendor, res.Code, res.Stderr)
		}
		if n := len(s.Requests()); n > 0 {
			t.Errorf("%s: %d requests were sent", vendor, n)
		}
	}
}

// preparing are the requests that lie in testdata/prepare, one file for each vendor.
var preparing = []struct {
	name    string
	answers []vendors.Answer // of a turn before; nil: it is the first request
	args    []string         // behind `gantry model prepare --json`
	only    []string         // vendors that have it; nil: all
}{
	{name: "text", args: []string{"say hello"}},
	{name: "schema", args: []string{"--output-schema", "schema.json", "say hello"}},
	{name: "image", args: []string{"-i", "dot.png", "what is on it?"}},
	{name: "search", args: []string{"-c", `model.real.hosted_tools=["web_search"]`, "what is new?"}, only: []string{"openai-responses", "anthropic", "gemini"}},
	{name: "calls", args: []string{"and now?"}, answers: []vendors.Answer{
		{Text: "Both at once.", Calls: []vendors.Call{onDesk("lookup", "gantry"), onDesk("lookup", "crane")}}, {Text: "Two words."},
	}},
	{name: "picture", args: []string{"and now?"}, answers: []vendors.Answer{{Calls: []vendors.Call{onDesk("picture", "crane")}}, {Text: "A crane."}}},
	{name: "reasoning", args: []string{"and now?"}, answers: []vendors.Answer{
		{Reasoning: "I should look.", Calls: []vendors.Call{onDesk("lookup", "gantry")}}, {Reasoning: "So that is it.", Text: "A word."},
	}},
}

// Every wire format, request by request. `go test -run TestPreparedRequests -update` writes the files anew.
func TestPreparedRequests(t *testing.T) {
	for vendor := range vendorBlocks {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			for _, p := range preparing {
				if p.only != nil && !slices.Contains(p.only, vendor) {
					continue
				}
				t.Run(p.name, func(t *testing.T) {
					s := vendors.Start(t, vendor, p.answers...)
					r := rig.New(t, "[[step]]\ndo = [{ text = \"nothing\" }]\n")
					useVendor(r, vendor, s.URL)
					onlyDesk(t, r)
					r.Write("dot.png", pixelFile(t))
					r.Write("schema.json", `{"type":"object","properties":{"word":{"type":"string","description":"one word"},"n":{"type":["integer","null"]}},"required":["word","n"],"additionalProperties":false}`)
					args := []string{"model", "prepare", "--json"}
					if p.answers != nil {
						r.OK("exec", "look words up")
						args = append(args, "--thread", last(t, r))
					}
					golden(t, filepath.Join("prepare", vendor+"-"+p.name+".json"), lasting(t, r, s.URL, r.OK(append(args, p.args...)...).Stdout))
				})
			}
		})
	}
}

func pixelFile(t *testing.T) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// lasting is a prepared request as people read it, without what is different on another machine, at another time, or of no
// interest here: the host's own texts.
func lasting(t *testing.T, r *rig.Rig, address, text string) []byte {
	t.Helper()
	for _, own := range ownTexts(t, r) {
		if !strings.Contains(text, own.text) {
			t.Errorf("the request lacks %s:\n%s", own.name, text)
		}
		text = strings.ReplaceAll(text, own.text, own.name)
	}
	text = strings.ReplaceAll(text, address, "http://vendor.test")
	text = threadID.ReplaceAllString(text, "<thread>")
	text = regexp.MustCompile(`"User-Agent":"gantry/[^"]*"`).ReplaceAllString(text, `"User-Agent":"gantry/<version>"`)
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return b.Bytes()
}

type ownText struct{ name, text string }

// ownTexts are what the host itself says to a model, as it stands in JSON.
func ownTexts(t *testing.T, r *rig.Rig) []ownText {
	t.Helper()
	res := r.OK("model", "prepare", "--json", "--model", "default", "x")
	var canonical struct {
		Body struct {
			System   []string
			Messages []struct {
				Role  string
				Parts []struct{ Text string }
			}
		}
	}
	if err := json.Unmarshal([]byte(res.Stdout), &canonical); err != nil {
		t.Fatalf("%v\n%s", err, res.Stdout)
	}
	c := canonical.Body
	if len(c.System) != 1 || len(c.Messages) < 2 {
		t.Fatalf("the host says something else to its model:\n%s", res.Stdout)
	}
	out := []ownText{{"<instructions>", escaped(t, strings.TrimSpace(c.System[0]))}}
	for _, m := range c.Messages[:len(c.Messages)-1] { // the last is the user's
		for _, p := range m.Parts {
			out = append(out, ownText{fmt.Sprintf("<the host's %s text %d>", m.Role, len(out)), escaped(t, p.Text)})
		}
	}
	return out
}

// escaped is a text as it stands between the quotes of JSON.
func escaped(t *testing.T, s string) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		t.Fatal(err)
	}
	return b.String()[1 : b.Len()-2]
}

// golden compares with a file of testdata, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is something else now; if that is meant, go test -update writes it anew. It is\n%s", path, got)
	}
}
