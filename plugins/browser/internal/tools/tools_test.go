package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/state"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

func TestConfiguration(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"idle must be positive":         {},
		`"a b" is not the pattern`:      {Idle: 1, Allow: []string{"a b"}},
		`"https://" is not the pattern`: {Idle: 1, Deny: []string{"https://"}},
		"":                              {Sandbox: true, Idle: 1, Allow: []string{"*.example.com"}, Deny: []string{"x.example.com"}},
		"Chromium's own sandbox is off": {Idle: 1},
		`contexts is "thread"`:          {Idle: 1, Contexts: "thread"},
		`mode is "always"`:              {Idle: 1, Session: SessionBlock{"always"}},
	} {
		c.Contexts, c.Session.Mode = cmp.Or(c.Contexts, ownContexts), cmp.Or(c.Session.Mode, reuse)
		p := &browserPlugin{config: &c}
		err := p.configured(t.Context(), &tool.Env{DataDir: t.TempDir()})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// What is approved is the start of the browser, the sites that are open or opened, and the actions; anything else has another digest.
func TestDigest(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("chromium-headless-shell"); err != nil {
		t.Skip("there is no Chromium on this machine")
	}
	p, x := &browserPlugin{config: &Config{}}, &thread{id: "t"}
	open := func(url string) plan {
		l, _, err := p.planAct(x, "/w", actArgs{Actions: []map[string]any{{"navigate": map[string]any{"url": url}}}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a, same, other := open("https://a.example/x"), open("https://a.example/x"), open("https://a.example/y")
	if len(a.Starts) == 0 || len(a.Origins) != 1 || a.Origins[0] != "https://a.example" {
		t.Errorf("%+v", a)
	}
	if a.digest() != same.digest() || a.digest() == other.digest() {
		t.Error("the digest does not identify the actions")
	}
	running := a
	running.Starts = nil
	if running.digest() == a.digest() {
		t.Error("the digest does not tell whether a browser is started")
	}
}

// The tools that models are always shown are part of every request.
func TestToolsAreSmall(t *testing.T) {
	t.Parallel()
	const most = 6144
	size := 0
	for _, x := range New("1", "browser").Tools {
		d := x.Descriptor()
		if d.Exposure == contract.ExposureDeferred || d.Exposure == contract.ExposureHidden || d.Nesting == contract.NestingOnly {
			continue
		}
		b, err := json.Marshal(map[string]any{"name": d.Name, "description": d.Description, "input_schema": d.InputSchema})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", d.Name, len(b))
		size += len(b)
	}
	if t.Logf("together: %d bytes", size); size > most {
		t.Errorf("the tools have %d bytes together; at most %d", size, most)
	}
}

// A state is continued where it was cut, and each line is in exactly one part.
func TestFullStateIsContinued(t *testing.T) {
	t.Parallel()
	var nodes []*state.Node
	for range 100 {
		nodes = append(nodes, &state.Node{Text: strings.Repeat("word ", 20)})
	}
	s := (&state.Book{}).Take(&state.Frame{Nodes: nodes})
	first := full(s, viewing{tokens: 1000})
	if !strings.Contains(first, "... 61 more lines: call browser_state with from=39") {
		t.Error(first[len(first)-80:])
	}
	if rest := full(s, viewing{from: 39}); strings.Count(first+rest, "word ") != 2000 || strings.Contains(rest, "more lines") {
		t.Errorf("%d words", strings.Count(first+rest, "word "))
	}
	if bytesOf(1<<30) != defaultTokens*4 || bytesOf(-1) != defaultTokens*4 {
		t.Error("a state is not bounded")
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	var x tail
	_, _ = x.Write(bytes.Repeat([]byte("a"), 5000))
	_, _ = x.Write([]byte("end\n"))
	if s := x.String(); len(s) != 1999 || !strings.HasSuffix(s, "aend") {
		t.Errorf("%d bytes", len(s))
	}
}

// The descriptions of a tool cost each request of a model, whether it uses the tool or not.
func TestScriptToolsAreSmall(t *testing.T) {
	t.Parallel()
	const most = 2300
	size := 0
	for _, x := range (&browserPlugin{config: &Config{}}).scriptTools() {
		d := x.Descriptor()
		b, err := json.Marshal(map[string]any{"name": d.Name, "description": d.Description, "parameters": d.InputSchema})
		if err != nil {
			t.Fatal(err)
		}
		size += len(b)
		t.Logf("%s: %d bytes", d.Name, len(b))
	}
	if size > most {
		t.Errorf("%d bytes, more than %d", size, most)
	}
}
