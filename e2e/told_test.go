package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// said are the lines of a request from a message on: the role, and the first line of each part.
func said(ms []llm.Message) (out []string) {
	for _, m := range ms {
		var parts []string
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				head, _, _ := strings.Cut(p.Text, "\n")
				parts = append(parts, head)
			case *llm.ToolCall:
				parts = append(parts, "call "+p.ID)
			case *llm.ToolResult:
				parts = append(parts, "output "+p.ID)
			}
		}
		out = append(out, m.Role.String()+": "+strings.Join(parts, " | "))
	}
	return out
}

// What people write down for agents is told with the surroundings, once; an edit is told before the next request, whoever made
// it and whether or not the host was started again meanwhile.
func TestAgentsFiles(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { user = "edit it", since_user = 0 }
times = -1
do = [{ call = "exec_command", id = "c1", args = { cmd = "printf 'rule three' > AGENTS.md", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	r.Config("model \"other\" {\n  provider = \"scripted\"\n  name = \"scripted\"\n  instructions = \"Be another.\"\n}\n")
	if err := os.MkdirAll(filepath.Join(r.Dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.Dir, "AGENTS.md")
	remove := func() {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	heading := "# AGENTS.md instructions for " + r.Dir
	before := 0
	// next runs a turn and compares what is new in the request before its answer.
	next := func(what string, want []string, text string, args ...string) rig.Result {
		t.Helper()
		res := r.OK(args...)
		ms := r.Last().Request.Messages
		if got := said(ms[before:]); !slices.Equal(got, want) {
			t.Errorf("%s: the model was told\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		var all strings.Builder
		for _, m := range ms[before:] {
			all.WriteString(m.Text())
		}
		if !strings.Contains(all.String(), text) {
			t.Errorf("%s: no %q in\n%s", what, text, all.String())
		}
		before = len(ms)
		return res
	}
	r.Write("AGENTS.md", "rule one")
	next("a thread begins", []string{"system: <permissions instructions>", "user: " + heading + " | <environment_context>", "user: go"},
		"<INSTRUCTIONS>\nrule one\n</INSTRUCTIONS>", "exec", "go")
	next("nothing changed", []string{"assistant: done", "user: on"}, "", "resume", "--last", "on")
	r.Write("AGENTS.md", "rule two")
	next("an edit", []string{"assistant: done", "user: " + heading, "user: on"}, "AGENTS.md instructions above.\n\nrule two\n", "resume", "--last", "on")
	next("the model's own edit", []string{"assistant: done", "user: edit it", "assistant: call c1", "tool: output c1", "user: " + heading}, "rule three",
		"resume", "--last", "edit it")
	remove()
	next("no file any more", []string{"assistant: done", "user: # AGENTS.md instructions", "user: on"}, "do not hold any more", "resume", "--last", "on")
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if res := next("a pipe", []string{"assistant: done", "user: on"}, "", "resume", "--last", "on"); !strings.Contains(res.Stderr, "AGENTS.md are not used: it is not a regular file") {
		t.Errorf("nobody is warned:\n%s", res.Stderr)
	}
	remove()
	r.Write("AGENTS.md", "rule four")
	next("another model, and the file again", []string{"assistant: done", "system: <model_switch>", "user: " + heading, "user: on"}, "Be another.",
		"resume", "--last", "--model", "other", "on")
	next("it stays", []string{"assistant: done", "user: on"}, "", "resume", "--last", "on")
	next("and back", []string{"assistant: done", "system: <model_switch>", "user: on"}, "You are gantry", "resume", "--last", "--model", "default", "on")
	r.NothingLeft()
}

// Each request of a thread begins as the one before did, as far as a vendor's cache can tell: over tool calls, edits of what
// holds for agents, another model's instructions, and hosts that come and go.
func TestPrefixAtVendors(t *testing.T) {
	for vendor := range vendorBlocks {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			const turns = 7
			var answers []vendors.Answer
			for i := range turns {
				if i%2 == 0 {
					answers = append(answers, vendors.Answer{Text: "I look.", Calls: []vendors.Call{
						{Name: "exec_command", Args: map[string]any{"cmd": fmt.Sprint("echo ", i), "login": false}},
						{Name: "exec_command", Args: map[string]any{"cmd": fmt.Sprintf("echo rule %d > AGENTS.md", i), "login": false}},
					}})
				}
				answers = append(answers, vendors.Answer{Text: fmt.Sprint("done ", i)})
			}
			s := vendors.Start(t, vendor, answers...)
			r := rig.New(t, "")
			useVendor(r, vendor, s.URL)
			for i := range turns {
				if i%3 == 0 {
					r.Write("AGENTS.md", fmt.Sprint("mine ", i))
				}
				args := []string{"resume", "--last", fmt.Sprint("task ", i)}
				if i == 0 {
					args = []string{"exec", "task 0"}
				}
				r.OK(args...)
			}
			var last []string
			for i, req := range s.Requests() {
				now := pieces(t, req.Raw)
				if i > 0 && !(len(now) > len(last) && slices.Equal(now[:len(last)], last)) {
					n := 0
					for n < min(len(now), len(last)) && now[n] == last[n] {
						n++
					}
					t.Fatalf("request %d leaves the one before at piece %d:\n%s\nbefore:\n%s", i+1, n+1, strings.Join(now[n:], "\n"), strings.Join(last[n:], "\n"))
				}
				last = now
			}
			if !strings.Contains(strings.Join(last, "\n"), "rule 4") {
				t.Errorf("an edit was never told:\n%s", strings.Join(last, "\n"))
			}
		})
	}
}

// pieces are what a vendor's cache sees of a request, in its order: instructions, tools, and each part of each message with its
// speaker. Marks for the cache are not part of what they mark.
func pieces(t *testing.T, raw []byte) (out []string) {
	t.Helper()
	var body map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&body); err != nil {
		t.Fatal(err)
	}
	body = unmark(body).(map[string]any)
	write := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, key := range []string{"system", "systemInstruction", "instructions", "tools"} {
		if v, there := body[key]; there {
			out = append(out, key+": "+write(v))
		}
	}
	for _, key := range []string{"messages", "input", "contents"} {
		messages, _ := body[key].([]any)
		for _, m := range messages {
			m := m.(map[string]any)
			cut := ""
			for _, k := range []string{"content", "parts"} {
				if parts, list := m[k].([]any); list {
					for _, p := range parts {
						out = append(out, fmt.Sprint(m["role"])+": "+write(p))
					}
					cut = k
				}
			}
			delete(m, cut)
			if rest := write(m); cut == "" || len(m) > 1 {
				out = append(out, rest)
			}
		}
	}
	return out
}

// unmark takes out what tells a vendor where to cache: a field, or a part of its own.
func unmark(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "cache_control")
		for k, e := range v {
			v[k] = unmark(e)
		}
	case []any:
		var out []any
		for _, e := range v {
			if m, ok := e.(map[string]any); !ok || m["cachePoint"] == nil {
				out = append(out, unmark(e))
			}
		}
		return out
	}
	return v
}
