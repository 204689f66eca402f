package tools

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/plugins/python/internal/kernel"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{"0": 0, "4GiB": 4 << 30, "512MiB": 512 << 20, "7": 7, "1KiB": 1 << 10} {
		if got, err := parseSize(s); got != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "GiB", "-1GiB", "1GB", "1.5GiB", "99999999999TiB", "1 GiB"} {
		if got, err := parseSize(s); err == nil {
			t.Errorf("%q is %d", s, got)
		}
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	p := &pythonPlugin{config: &Config{Timeout: time.Minute, MaxTimeout: time.Hour}}
	for ms, want := range map[int64]time.Duration{1: time.Millisecond, 60_001: 60_001 * time.Millisecond, 1 << 62: time.Hour} {
		if got, err := p.timeout(cellArgs{TimeoutMS: &ms}); got != want || err != nil {
			t.Errorf("%d: %v, %v", ms, got, err)
		}
	}
	if got, err := p.timeout(cellArgs{}); got != time.Minute || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := p.timeout(cellArgs{TimeoutMS: new(int64)}); err == nil {
		t.Error("a timeout of 0 is accepted")
	}
}

// What is approved is the code, the session and the start of the interpreter; the code is never a command.
func TestEffects(t *testing.T) {
	t.Parallel()
	l := plan{Session: "s", Python: "/usr/bin/python3", Cwd: "/w", Code: "1"}
	first := l.effects()
	exec, ok := first[0].(contract.ExecEffect)
	if !ok || exec.Argv[0] != "/usr/bin/python3" || exec.ShellText != "" || len(first) != 2 {
		t.Errorf("%+v", first)
	}
	same := l
	same.Python = ""
	if next := same.effects(); len(next) != 1 || next[0] != first[1] {
		t.Errorf("%+v", next)
	}
	if in, ok := first[1].(contract.SessionInputEffect); !ok || in.Language != "python" || in.Text != "1" || in.SessionID != "s" {
		t.Errorf("%+v", first[1])
	}
	for _, other := range []plan{same, {Session: "s2", Python: l.Python, Cwd: "/w", Code: "1"}, {Session: "s", Python: l.Python, Cwd: "/w", Code: "2"}} {
		if other.digest() == l.digest() {
			t.Errorf("%+v has the same digest", other)
		}
	}
}

func TestBody(t *testing.T) {
	t.Parallel()
	data := func(kv ...string) map[string]json.RawMessage {
		out := map[string]json.RawMessage{}
		for i := 0; i < len(kv); i += 2 {
			b, err := json.Marshal(kv[i+1])
			if err != nil {
				t.Fatal(err)
			}
			out[kv[i]] = b
		}
		return out
	}
	o := &kernel.Outcome{
		Output: kernel.Output{Head: []byte("out"), Tail: []byte("end\xff"), Omitted: 7},
		Displays: []kernel.Display{
			{Data: data("text/plain", "<Figure>", "image/png", "eA==")},
			{Data: data("text/plain", "not an image", "image/png", "%")},
			{Result: true, Data: data("text/plain", "a picture", "image/jpeg", "eQ==")},
		},
		Failure: &kernel.Failure{Traceback: "Traceback\n"},
	}
	text, images := answer{}.body(o)
	if want := "out\n[7 bytes of output omitted]\nend\uFFFD\nnot an image\na picture\nTraceback\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	if len(images) != 2 || string(images[0].Data) != "x" || images[1].MediaType != "image/jpeg" {
		t.Errorf("%+v", images)
	}
	if s := short("abc", 2); s != "" {
		t.Errorf("%q", s)
	}
	if s := short(strings.Repeat("ä", 100), 51); len(s) > 60 || !strings.Contains(s, "[…]") {
		t.Errorf("%q", s)
	}
}

// The structured result fits into its limit whatever a cell has shown, and says how many values it has no room for.
func TestStructuredResultIsBounded(t *testing.T) {
	t.Parallel()
	long, err := json.Marshal(strings.Repeat("x", 200))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]json.RawMessage{"text/plain": json.RawMessage(`"a table"`), "application/json": json.RawMessage(`{"a":1}`), "image/png": json.RawMessage(`"eA=="`)}
	o := &kernel.Outcome{
		Displays: []kernel.Display{{Data: shown}, {Result: true, Data: shown}},
		Values:   []kernel.Value{{Label: "l", Value: json.RawMessage("7")}, {Value: long}},
		Failure:  &kernel.Failure{EName: "E", EValue: "v", Traceback: strings.Repeat("\x00", 10_000)},
		Output:   kernel.Output{Head: []byte(strings.Repeat("\x01", 10_000))}, Count: 3,
	}
	a := answer{events: []json.RawMessage{json.RawMessage(`{"kind":"click"}`), long}, artifacts: []contract.ArtifactRef{{Name: "f"}}, lost: "gone"}
	for limit, left := range map[int]int{1 << 20: 0, 2000: 2} {
		b, missing := a.structured(o, "error", "text", []*contract.MediaPart{{MediaType: "image/png", Data: []byte("abc")}}, limit)
		var s structured
		if err := json.Unmarshal(b, &s); err != nil || len(b) > limit {
			t.Fatalf("%v; %d bytes, at most %d", err, len(b), limit)
		}
		if missing < left || left == 0 && missing != 0 {
			t.Errorf("limit %d: %d values have no room", limit, missing)
		}
		if !s.NamespaceLost || s.Status != "error" || s.ExecutionCount != 3 || s.Error.EName != "E" || len(s.Images) != 1 || s.Images[0].Size != 3 || len(s.Artifacts) != 1 {
			t.Errorf("limit %d: %+v", limit, s)
		}
		if limit == 2000 {
			continue
		}
		var kinds []string
		for _, x := range s.Outputs {
			kinds = append(kinds, x.Type)
		}
		if !slices.Equal(kinds, []string{"stdout", "display", "result", "value", "value"}) || string(s.Data) != `{"a":1}` || len(s.BrowserEvents) != 2 {
			t.Errorf("%v, %s, %d", kinds, s.Data, len(s.BrowserEvents))
		}
		if d := s.Outputs[1]; d.Text != "a table" || len(d.Data) != 1 || s.Outputs[3].Label != "l" {
			t.Errorf("%+v", s.Outputs)
		}
	}
}

// The structured result says that the namespace is lost if an earlier kernel was, or the one of the call.
func TestNamespaceLost(t *testing.T) {
	t.Parallel()
	for want, all := range map[bool][]answer{true: {{lost: "it was stopped"}, {exit: "it was ended by a signal (killed)"}}, false: {{}}} {
		for _, a := range all {
			b, _ := a.structured(&kernel.Outcome{}, "lost", "", nil, 1<<20)
			var s structured
			if err := json.Unmarshal(b, &s); err != nil || s.NamespaceLost != want {
				t.Errorf("%+v: %s, %v", a, b, err)
			}
		}
	}
}

// Steps in a browser that nested calls report are kept, up to a bound; other results have none.
func TestBrowserEvents(t *testing.T) {
	t.Parallel()
	h := &handler{}
	for _, result := range []string{"", "[1]", `"text"`, `{"browser_events":7}`, `{"other":1}`, `{"browser_events":[{"kind":"open"},{"kind":"click"}]}`} {
		h.browsed(json.RawMessage(result))
	}
	if _, events := h.kept(); len(events) != 2 || string(events[1]) != `{"kind":"click"}` {
		t.Errorf("%s", events)
	}
	h.browsed(json.RawMessage(`{"browser_events":[` + strings.Repeat("1,", 2*maxEvents) + `1]}`))
	if _, events := h.kept(); len(events) != maxEvents {
		t.Errorf("%d events", len(events))
	}
}
