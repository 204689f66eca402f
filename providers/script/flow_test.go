package script_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func load(t testing.TB, name string) *script.Player {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	p, err := script.Load(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The example scripts carry their own expectations, so a flow that goes wrong ends in an error that says how. Each runs
// with a provider that remembers its threads, with one that is new for each request, and with one that is new while the
// host has lost all metadata; each of them with a host that keeps a message per answer, and with one that keeps a message
// per block.
func TestFlows(t *testing.T) {
	t.Parallel()
	type want struct {
		texts    []string // last text of each turn; "" where it fails
		requests int
		attempts int
		code     llm.ErrorCode // of the last error
		shape    string        // at the end
	}
	turns := map[string][]string{"e11-overflow-then-compact.toml": {"first question"}}
	for name, w := range map[string]want{
		"e01-unknown-tool.toml":      {texts: []string{"done"}, requests: 2, shape: "D X U C:c1 C:c2 O:c1 O:c2 A"},
		"e03-parallel-order.toml":    {texts: []string{"A, then B"}, requests: 2, shape: "D X U C:c1 C:c2 O:c1 O:c2 A"},
		"e04-again.toml":             {texts: []string{"two"}, requests: 2, shape: "D X U A A"},
		"e05-cut-after-call.toml":    {texts: []string{"done"}, requests: 2, shape: "D X U A C:c1 O:c1 A"},
		"e06-always-cut.toml":        {texts: []string{""}, requests: 6, code: llm.ErrIncompleteStream, shape: "D X U A A A A A A"},
		"e07-always-500.toml":        {texts: []string{""}, requests: 6, attempts: 24, code: llm.ErrProviderInternal, shape: "D X U"},
		"e08-too-many-requests.toml": {texts: []string{""}, requests: 1, code: llm.ErrRateLimit, shape: "D X U"},
		"e09-overloaded.toml":        {texts: []string{""}, requests: 1, code: llm.ErrOverloaded, shape: "D X U"},
		"e10-inner-retry.toml":       {texts: []string{"ok"}, requests: 1, attempts: 1, shape: "D X U A"},
		"e25-idle.toml":              {texts: []string{"ready"}, requests: 1, shape: "D X U A"},
		"load.toml":                  {texts: []string{"done", "done"}, requests: 42},
	} {
		for _, mode := range []string{"remembered", "derived", "replayed", "remembered split", "derived split", "replayed split"} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, load(t, name))
				h.tool, h.forget, h.strip = echo, !strings.HasPrefix(mode, "remembered"), strings.HasPrefix(mode, "replayed")
				h.split = strings.HasSuffix(mode, "split")
				prompts := turns[name]
				for i, text := range w.texts {
					prompt := "question"
					if i < len(prompts) {
						prompt = prompts[i]
					}
					if got := h.turn(prompt); got != text {
						t.Errorf("turn %d ended with %q, want %q; error %v", i+1, got, text, h.last)
					}
				}
				if h.requests != w.requests || h.attempts != w.attempts {
					t.Errorf("%d requests and %d attempts, want %d and %d", h.requests, h.attempts, w.requests, w.attempts)
				}
				if w.code != 0 && (h.last == nil || h.last.Code != w.code) {
					t.Errorf("last error %v, want code %v", h.last, w.code)
				}
				if got := script.Shape(&h.req); w.shape != "" && got != w.shape {
					t.Errorf("shape %s, want %s", got, w.shape)
				}
			})
		}
	}
}

func TestBadArgumentsVoidTheCall(t *testing.T) {
	t.Parallel()
	h := newHost(t, load(t, "e02-bad-arguments.toml"))
	h.say("go")
	a, err := h.player.Play(script.Input{Request: &h.req})
	if err != nil {
		t.Fatal(err)
	}
	var bad *llm.ToolInputError
	for _, action := range a.Actions {
		if e, ok := action.(script.Emit); ok {
			if e, ok := e.Event.(llm.ToolInputError); ok {
				bad = &e
			}
		}
	}
	if bad == nil || bad.Raw != "{bad" || bad.ID != "c1" || bad.Name != "exec_command" {
		t.Errorf("tool-input-error = %+v", bad)
	}
}

func TestUsageOfTheScriptArrives(t *testing.T) {
	t.Parallel()
	h := newHost(t, load(t, "e01-unknown-tool.toml"))
	h.tool = echo
	h.turn("go")
	var total int64
	for _, u := range h.usage {
		total += *u.Total
	}
	if len(h.usage) != 2 || total != 325 {
		t.Errorf("%d usages with a sum of %d, want 2 and 325", len(h.usage), total)
	}
}

func TestOverflowThenCompaction(t *testing.T) {
	t.Parallel()
	h := newHost(t, load(t, "e11-overflow-then-compact.toml"))
	h.tool = echo
	if got := h.turn("first question"); got != "" || h.last.Code != llm.ErrContextOverflow {
		t.Fatalf("turn 1: %q, %v", got, h.last)
	}
	// The host compacts: no tools, then a history of the summary and the new prompt.
	tools := h.req.Tools
	h.req.Tools = nil
	summary, _ := h.sample()
	h.req.Tools = tools
	h.req.Messages = h.req.Messages[:2]
	h.say("Summary: " + summary.Message().Text())
	if got := h.turn("second question"); got != "four" {
		t.Errorf("turn 2: %q, %v", got, h.last)
	}
}

func TestInterruptedCallExpectsItsNote(t *testing.T) {
	t.Parallel()
	h := newHost(t, load(t, "e26-interrupt.toml"))
	h.say("go")
	fold, _ := h.sample()
	h.req.Messages = append(h.req.Messages, *fold.Message(), llm.Message{Role: llm.RoleTool, Parts: llm.Parts{
		&llm.ToolResult{ID: "c1", IsError: true, Content: llm.Parts{&llm.Text{Text: "Wall time: 2.0 seconds\naborted by user"}}},
	}})
	before := h.req.Messages
	if h.turn("go on"); h.last == nil || !strings.Contains(h.last.Message, "does not match the conversation") {
		t.Errorf("the missing note was not noticed: %v", h.last)
	}
	h.req.Messages = before
	h.say("<turn_aborted>\nstopped on purpose\n</turn_aborted>")
	if got := h.turn("go on"); got != "going on" {
		t.Errorf("%q, %v", got, h.last)
	}
}

func TestCapturesFlowIntoLaterCalls(t *testing.T) {
	t.Parallel()
	for mode := range 4 {
		h := newHost(t, load(t, "captures.toml"))
		h.forget, h.split = mode%2 == 1, mode > 1
		var inputs []string
		h.tool = func(c *llm.ToolCall) (string, bool) {
			inputs = append(inputs, c.Input)
			return "12:  TODO: it's here\n15:  TODO: and here", true
		}
		got := h.turn("look in it's.txt please")
		if want := "hello: line 12 of it's.txt says  TODO: it's here; nothing is missing"; got != want {
			t.Errorf("got  %q (%v)\nwant %q", got, h.last, want)
		}
		want := []string{`{"cmd":"grep -n TODO it's.txt"}`, `{"cmd":"sed -n 12p it's.txt","note":"costs ${HOME} nothing"}`}
		if strings.Join(inputs, "\n") != strings.Join(want, "\n") {
			t.Errorf("inputs\n%s\nwant\n%s", strings.Join(inputs, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestConditionsChooseInAnyOrder(t *testing.T) {
	t.Parallel()
	h := newHost(t, load(t, "title.json"))
	if got := h.turn("hello"); got != "I have nothing to say about that." {
		t.Errorf("otherwise: %q, %v", got, h.last)
	}
	h.req.Tools = append(h.req.Tools, llm.Tool{Name: "weather"})
	h.tool = func(*llm.ToolCall) (string, bool) { return "-3 °C, snow", true }
	if got := h.turn("weather?"); got != "It has -3 degrees." {
		t.Errorf("report: %q, %v", got, h.last)
	}
	h.req.Tools = nil
	if got := h.turn("Find a title"); got != "A short title" {
		t.Errorf("title: %q, %v", got, h.last)
	}
}

func TestCrashGoesOnWithTheNextStep(t *testing.T) {
	t.Parallel()
	h := newHost(t, load(t, "crash.toml"))
	h.say("go")
	fold, halt := h.sample()
	if b, ok := halt.(script.Halt); !ok || b.How != "kill" {
		t.Fatalf("halt = %#v", halt)
	}
	if got := fold.Message().Text(); got != "I am" {
		t.Errorf("before the crash: %q", got)
	}
	fold, _ = h.sample()
	if got := fold.Message().Text(); got != "back again" {
		t.Errorf("after the crash: %q, %v", got, fold.Err())
	}
}
