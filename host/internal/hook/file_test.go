package hook

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

const settingsFile = `{
  "permissions": {"allow": ["Bash(ls)"]},
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash|Write", "hooks": [
        {"type": "command", "command": "one", "timeout": 5, "statusMessage": "looking"},
        {"type": "prompt", "prompt": "is that fine?", "model": "small"},
        {"type": "command", "command": "two", "async": true, "additionalContextLimit": 0, "onError": "block"}
      ]},
      {"matcher": "(", "hooks": [{"type": "command", "command": "never"}]},
      "no group"
    ],
    "Stop": [{"matcher": "ignored(", "hooks": [{"type": "command", "command": "three", "timeout": 0.2}]}],
    "SessionStart": [{"hooks": [{"type": "agent", "prompt": "x"}]}],
    "PermissionRequest": [{"hooks": [{"type": "agent", "prompt": "look", "timeout": 90}, {"type": "prompt"}, {"type": "mcp_tool"}]}],
    "TeammateIdle": [{"hooks": [{"type": "command", "command": "x"}]}],
    "PreToolUsed": []
  }
}`

func TestParseFile(t *testing.T) {
	ds, ps := ParseFile([]byte(settingsFile), "/f.json", User)
	if len(ds) != 5 {
		t.Fatalf("%d hooks: %+v", len(ds), ds)
	}
	one, asks, two, looks, three := ds[0], ds[1], ds[2], ds[3], ds[4]
	if asks.Prompt != "is that fine?" || asks.Model != "small" || asks.Looks || asks.Command != "" || asks.Key != "/f.json:pre_tool_use:0:1" || asks.Kind() != "prompt" {
		t.Errorf("asks = %+v", asks)
	}
	if looks.Prompt != "look" || !looks.Looks || looks.TimeLimit() != 90*time.Second || looks.Kind() != "agent" {
		t.Errorf("looks = %+v", looks)
	}
	if one.Key != "/f.json:pre_tool_use:0:0" || one.Event != PreToolUse || one.Matcher != "Bash|Write" || one.Timeout != 5*time.Second || one.Status != "looking" || one.Scope != User {
		t.Errorf("one = %+v", one)
	}
	if two.Key != "/f.json:pre_tool_use:0:2" || !two.Async || two.ContextTokens == nil || *two.ContextTokens != 0 || two.Block == nil || !*two.Block {
		t.Errorf("two = %+v", two)
	}
	if three.Event != Stop || three.Matcher != "" || three.Timeout != time.Second {
		t.Errorf("three = %+v", three)
	}
	var got []string
	for _, p := range ps {
		where := p.Where
		if p.Foreign {
			where += " (foreign)"
		}
		got = append(got, where)
		if p.Text == "" || p.Next == "" || p.Source != "/f.json" {
			t.Errorf("a problem without words: %+v", p)
		}
	}
	want := "PermissionRequest[0].hooks[1] PermissionRequest[0].hooks[2] PreToolUse[1] PreToolUse[2] PreToolUsed SessionStart[0].hooks[0] TeammateIdle (foreign)"
	if strings.Join(got, " ") != want {
		t.Errorf("problems at %q, want %q", got, want)
	}
	for _, text := range []string{"", "[]", `{"hooks": 3}`, `{"hooks": {"Stop": 3}}`} {
		if ds, ps := ParseFile([]byte(text), "f", Managed); len(ds) != 0 || len(ps) != 1 {
			t.Errorf("%q: %v, %v", text, ds, ps)
		}
	}
	for _, text := range []string{"{}", `{"hooks": null}`, `{"disableAllHooks": true, "hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}}`} {
		if ds, ps := ParseFile([]byte(text), "f", Managed); len(ds) != 0 || len(ps) != 0 {
			t.Errorf("%q: %v, %v", text, ds, ps)
		}
	}
}

// What is read from a file can be run: it has a command, a known event, a matcher that compiles and a time within bounds.
func FuzzParseFile(f *testing.F) {
	f.Add(settingsFile)
	f.Add(`{"hooks":{"Stop":[{"hooks":[{"command":"x","timeout":1e300}]}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		ds, _ := ParseFile([]byte(text), "f", Project)
		if len(ds) > 0 && !json.Valid([]byte(text)) {
			t.Fatal("hooks of a file that is no JSON")
		}
		keys := map[string]bool{}
		for _, d := range ds {
			if (strings.TrimSpace(d.Command) == "") == (strings.TrimSpace(d.Prompt) == "") || keys[d.Key] || d.Prompt != "" && !d.Event.Judgeable() {
				t.Fatalf("hook %+v", d)
			}
			keys[d.Key] = true
			if after := d.TimeLimit(); after < minTimeout {
				t.Fatalf("it would run for %v", after)
			}
		}
		if _, err := New(Config{Definitions: ds}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMatchers(t *testing.T) {
	for _, tt := range []struct {
		matcher string
		names   []string
		want    bool
	}{
		{"", []string{"Bash"}, true},
		{"*", nil, true},
		{"Bash", []string{"Bash", "exec_command"}, true},
		{"exec_command", []string{"Bash", "exec_command"}, true},
		{"Bas", []string{"Bash"}, false},
		{"Write|Edit", []string{"apply_patch", "Write", "Edit"}, true},
		{"Write|Edit", []string{"Bash"}, false},
		{"bash", []string{"Bash"}, false},
		{"mcp__.*__write", []string{"mcp__files__write_file"}, true},
		{"^mcp__files$", []string{"mcp__files__write_file"}, false},
		{"B.sh", []string{"xBashx"}, true},
		{"startup|resume", []string{"resume"}, true},
		{"manual", []string{"auto"}, false},
	} {
		m, err := newMatcher(tt.matcher)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.matches(tt.names); got != tt.want {
			t.Errorf("%q matches %v: %v", tt.matcher, tt.names, got)
		}
	}
}

func TestTimeouts(t *testing.T) {
	for _, tt := range []struct {
		ev          Event
		asked, want time.Duration
	}{
		{PreToolUse, 0, 10 * time.Minute}, {PreToolUse, time.Minute, time.Minute}, {PreToolUse, 1, time.Second},
		{SessionEnd, 0, time.Second}, {SessionEnd, time.Minute, 3 * time.Second}, {Interrupt, 2 * time.Second, 2 * time.Second},
	} {
		if got := tt.ev.timeout(tt.asked); got != tt.want {
			t.Errorf("%s, %v: %v, want %v", tt.ev, tt.asked, got, tt.want)
		}
	}
}
