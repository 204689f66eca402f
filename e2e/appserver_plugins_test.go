package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// listedPlugin is a plugin in the result of gantry/plugin/list.
type listedPlugin struct {
	Label, Kind, State string
	Version            *string
	PID                *int
	Problem            *string
	Commands           []struct {
		Name        string
		SideEffects bool
	}
}

// pluginNamed returns a plugin of a list.
func pluginNamed(t *testing.T, c *rig.Client, label string, params object) listedPlugin {
	t.Helper()
	var list struct{ Data []listedPlugin }
	c.Call("gantry/plugin/list", params, &list)
	i := slices.IndexFunc(list.Data, func(p listedPlugin) bool { return p.Label == label })
	if i < 0 {
		t.Fatalf("no plugin %q in %+v", label, list.Data)
	}
	return list.Data[i]
}

// refusedAs sends a request that is refused, and returns the code, and the kind and the next step of its data.
func refusedAs(t *testing.T, c *rig.Client, method string, params any) (code int, kind, next string) {
	t.Helper()
	m := c.Reply(c.Request(method, params))
	if m.Error == nil {
		t.Fatalf("%s %v is not refused", method, params)
	}
	var data struct{ Kind, Next string }
	if m.Error.Data != nil {
		if err := json.Unmarshal(m.Error.Data, &data); err != nil {
			t.Fatal(err)
		}
	}
	return m.Error.Code, data.Kind, data.Next
}

// Plugins are listed without being started. A command runs in the process that runs the thread, also if a client of another process asks.
func TestAppServerPlugins(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	addOdd(t, r, "desk", "commands", "")
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, object{})
	p := pluginNamed(t, c, "desk", object{})
	if p.Kind != "tool" || p.State != "stopped" || p.PID != nil || p.Problem != nil || p.Version == nil || *p.Version != "1.0.0" || len(p.Commands) != 7 ||
		p.Commands[0].Name != "status" || p.Commands[0].SideEffects || p.Commands[6].Name != "publish" || !p.Commands[6].SideEffects {
		t.Errorf("before it has started: %+v", p)
	}
	if p := pluginNamed(t, c, "scripted", object{"threadId": thread}); p.Kind != "provider" {
		t.Errorf("%+v", p)
	}
	process := func(c *rig.Client, params object) string {
		t.Helper()
		params["plugin"], params["name"] = "desk", "process"
		var out struct{ Output struct{ Process string } }
		c.Call("gantry/plugin/command", params, &out)
		return out.Output.Process
	}
	own := process(c, object{"threadId": thread})
	if p := pluginNamed(t, c, "desk", object{"threadId": thread}); p.State != "ready" || p.PID == nil {
		t.Errorf("while it runs: %+v", p)
	}
	if same := process(c, object{"cwd": r.Dir}); same != own {
		t.Errorf("for the thread's folder the command ran in process %s, for the thread in %s", same, own)
	}
	other := r.AppServer()
	greet(t, other)
	if process(other, object{"threadId": thread}) != own {
		t.Error("another server ran the command of a thread that it does not run")
	}
	if process(other, object{}) == own {
		t.Error("two servers have the same process of the plugin")
	}
	if p := pluginNamed(t, other, "desk", object{"threadId": thread}); p.State != "ready" || len(p.Commands) != 7 {
		t.Errorf("the thread of another server: %+v", p)
	}
}

// A command with side effects runs only if the user has agreed, and what can't run is refused with a kind.
func TestAppServerPluginCommandIsRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	addOdd(t, r, "desk", "commands", "")
	owner, other := r.AppServer(), r.AppServer()
	greet(t, owner)
	greet(t, other)
	thread := begin(t, owner, object{})
	file := filepath.Join(r.Dir, "published")
	for name, c := range map[string]*rig.Client{"here": owner, "in another process": other} {
		params := object{"threadId": thread, "plugin": "desk", "name": "publish", "input": object{"file": file}}
		if code, kind, next := refusedAs(t, c, "gantry/plugin/command", params); code != -32600 || kind != "not_confirmed" || !strings.Contains(next, "`confirmed`") || exists(r.Dir, "published") {
			t.Errorf("%s, not confirmed: %d %s %s", name, code, kind, next)
		}
		params["confirmed"] = true
		var out struct{ Output struct{ Published string } }
		if c.Call("gantry/plugin/command", params, &out); out.Output.Published != "published" || !exists(r.Dir, "published") {
			t.Errorf("%s, confirmed: %+v", name, out)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		for what, params := range map[string]object{
			"no such command": {"threadId": thread, "plugin": "desk", "name": "publsh"},
			"no such plugin":  {"threadId": thread, "plugin": "dsk", "name": "publish"},
		} {
			if code, kind, next := refusedAs(t, c, "gantry/plugin/command", params); code != -32600 || kind != "not_found" || !strings.Contains(next, "gantry plugin") {
				t.Errorf("%s, %s: %d %s %s", name, what, code, kind, next)
			}
		}
		for _, params := range []object{
			{"threadId": thread, "cwd": r.Dir, "plugin": "desk", "name": "status"},
			{"threadId": thread, "plugin": "desk", "name": "status", "input": []any{}},
		} {
			if code, _, _ := refusedAs(t, c, "gantry/plugin/command", params); code != -32602 {
				t.Errorf("%s, %v: %d", name, params, code)
			}
		}
	}
}

// The efforts and the kinds of input of a model are those that its provider knows. A provider that can't be asked fails no list.
func TestAppServerModelsHaveTheirEfforts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	r.Config(`
provider "anthropic" {
  source  = "builtin/anthropic"
  api_key = "x"
}
provider "openai" {
  source  = "builtin/openai"
  api_key = env("NO_SUCH_KEY")
}
model "thinks" {
  provider = "anthropic"
  name     = "claude-opus-4-6"
}
model "chosen" {
  provider  = "anthropic"
  name      = "claude-opus-4-6"
  reasoning = "low"
}
model "plain" {
  provider = "anthropic"
  name     = "claude-haiku-4-5"
}
model "unknown" {
  provider = "openai"
  name     = "gpt-4.1"
}
`)
	c := r.AppServer()
	greet(t, c)
	type model struct {
		ID                        string
		DefaultReasoningEffort    string
		InputModalities           []string
		SupportedReasoningEfforts []struct{ ReasoningEffort string }
	}
	var list struct{ Data []model }
	c.Call("model/list", object{}, &list)
	got := map[string]string{}
	for _, m := range list.Data {
		s := m.DefaultReasoningEffort + ":"
		for _, e := range m.SupportedReasoningEfforts {
			s += " " + e.ReasoningEffort
		}
		got[m.ID] = s
	}
	for id, want := range map[string]string{
		"thinks": "high: low medium high max", "chosen": "low: low medium high max", "plain": "high:", "unknown": "none:", "default": "medium: low medium high",
	} {
		if got[id] != want {
			t.Errorf("%s: %q, want %q", id, got[id], want)
		}
	}
}

// This machine is the only environment.
func TestAppServerEnvironments(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	c := r.AppServer()
	greet(t, c)
	var info struct {
		Shell struct{ Name, Path string }
		Cwd   string
	}
	if c.Call("environment/info", object{"environmentId": "local"}, &info); info.Cwd != r.Dir || !filepath.IsAbs(info.Shell.Path) || filepath.Base(info.Shell.Path) != info.Shell.Name {
		t.Errorf("%+v", info)
	}
	for id, want := range map[string]string{"local": "ready", "elsewhere": "unknown"} {
		var status struct{ Status string }
		if c.Call("environment/status", object{"environmentId": id}, &status); status.Status != want {
			t.Errorf("%s is %s, want %s", id, status.Status, want)
		}
	}
	refusal(t, c, "environment/info", object{"environmentId": "elsewhere"}, -32600, "unknown environment id `elsewhere`")
}
