package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// idleScript is a model that is not asked for anything but an answer.
const idleScript = "[[step]]\ntimes = -1\ndo = [{ text = \"x\" }]\n"

// match is a result of a file search.
type match struct {
	Root, Path string
	MatchType  string `json:"match_type"`
	FileName   string `json:"file_name"`
	Indices    []int
}

// A file search returns the best 50 matches. A session reports its results after the response, for the empty query first.
func TestAppServerFileSearch(t *testing.T) {
	t.Parallel()
	r := rig.New(t, idleScript)
	r.Write("src/parser.go", "")
	r.Write("ignored.log", "")
	r.Write(".gitignore", "*.log\n")
	for i := range 60 {
		r.Write(fmt.Sprintf("many/file%d.txt", i), "")
	}
	c := r.AppServer()
	greet(t, c)
	var found struct{ Files []match }
	c.Call("fuzzyFileSearch", map[string]any{"query": "prsr", "roots": []string{r.Dir}, "cancellationToken": "t"}, &found)
	if len(found.Files) != 1 || found.Files[0].Path != "src/parser.go" || found.Files[0].Root != r.Dir || found.Files[0].MatchType != "file" ||
		found.Files[0].FileName != "parser.go" || len(found.Files[0].Indices) != 4 {
		t.Errorf("%+v", found)
	}
	if c.Call("fuzzyFileSearch", map[string]any{"query": "file", "roots": []string{r.Dir}}, &found); len(found.Files) != 50 {
		t.Errorf("%d matches", len(found.Files))
	}
	if c.Call("fuzzyFileSearch", map[string]any{"query": "ignored", "roots": []string{r.Dir}}, &found); len(found.Files) != 0 {
		t.Errorf("%+v", found)
	}

	// completed returns the last result of a query before its end.
	completed := func(query string) (files []match) {
		t.Helper()
		of := "none"
		c.Until(func(m rig.Message) bool {
			var p struct {
				SessionID, Query string
				Files            []match
			}
			if m.Method == "fuzzyFileSearch/sessionUpdated" {
				m.Into(t, &p)
				of, files = p.Query, p.Files
			}
			return m.Method == "fuzzyFileSearch/sessionCompleted" && of == query
		})
		return files
	}
	from := len(c.All)
	c.Call("fuzzyFileSearch/sessionStart", map[string]any{"sessionId": "s", "roots": []string{r.Dir}}, nil)
	if n := len(c.All) - from; n != 1 {
		t.Errorf("%d messages up to the response", n)
	}
	if files := completed(""); len(files) != 0 {
		t.Errorf("%+v", files)
	}
	c.Request("fuzzyFileSearch/sessionUpdate", map[string]any{"sessionId": "s", "query": "parser"})
	if files := completed("parser"); len(files) != 1 {
		t.Errorf("%+v", files)
	}
	c.Call("fuzzyFileSearch/sessionStop", map[string]any{"sessionId": "s"}, nil)
	if code, _ := c.Refused("fuzzyFileSearch/sessionUpdate", map[string]any{"sessionId": "s", "query": "x"}); code != -32600 {
		t.Errorf("an update of a session that has ended: %d", code)
	}
	if code, _ := c.Refused("fuzzyFileSearch", map[string]any{"query": "x", "roots": []string{"relative"}}); code != -32600 {
		t.Errorf("a relative root: %d", code)
	}
}

// The hooks of a folder, with the user's consent to them as it is now. There are no skills.
func TestAppServerHooks(t *testing.T) {
	t.Parallel()
	r := rig.New(t, idleScript)
	script := filepath.Join(r.Home, "check.sh")
	r.Write(script, "#!/bin/sh\nexit 0\n")
	r.Config("hook \"check\" {\n  event   = \"PreToolUse\"\n  matcher = \"Bash\"\n  command = \"sh " + script + "\"\n  timeout = \"90s\"\n  status  = \"checking\"\n}\n" +
		"hook \"judge\" {\n  event  = \"UserPromptSubmit\"\n  prompt = \"Is this polite?\"\n}\n" +
		"hook \"heard\" {\n  event   = \"Notification\"\n  command = \"true\"\n}\n" +
		"hook \"unclear\" {\n  event   = \"Stop\"\n  command = \"make check\"\n}\n")
	c := r.AppServer()
	greet(t, c)
	type hook struct {
		Key, EventName, Matcher, HandlerType, Command, StatusMessage, SourcePath, Source, CurrentHash, TrustStatus string
		TimeoutSec, DisplayOrder                                                                                   int
		Enabled                                                                                                    bool
	}
	type entry struct {
		Cwd      string
		Hooks    []hook
		Warnings []string
		Errors   []struct{ Path, Message string }
	}
	list := func() entry {
		t.Helper()
		var l struct{ Data []entry }
		if c.Call("hooks/list", map[string]any{"cwds": []string{r.Dir}}, &l); len(l.Data) != 1 || l.Data[0].Cwd != r.Dir {
			t.Fatalf("%+v", l)
		}
		return l.Data[0]
	}
	file := filepath.Join(r.Home, "gantry.hcl")
	e := list()
	if len(e.Hooks) != 3 || len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], "Notification") ||
		len(e.Errors) != 1 || !strings.Contains(e.Errors[0].Message, "unclear") || e.Errors[0].Path != file {
		t.Fatalf("%+v", e)
	}
	want := hook{
		Key: file + ":hook:check", EventName: "preToolUse", Matcher: "Bash", HandlerType: "command", Command: "sh " + script, StatusMessage: "checking",
		SourcePath: file, Source: "user", CurrentHash: e.Hooks[0].CurrentHash, TrustStatus: "untrusted", TimeoutSec: 90,
	}
	if e.Hooks[0] != want || want.CurrentHash == "" {
		t.Errorf("got  %+v\nwant %+v", e.Hooks[0], want)
	}
	if h := e.Hooks[1]; h.HandlerType != "prompt" || h.EventName != "userPromptSubmit" || h.TimeoutSec != 30 || h.DisplayOrder != 1 {
		t.Errorf("%+v", h)
	}
	r.OK("hooks", "trust", "--yes", file+":hook:check")
	if h := list().Hooks[0]; h.TrustStatus != "trusted" || !h.Enabled {
		t.Errorf("after consent: %+v", h)
	}
	r.Write(script, "#!/bin/sh\nexit 2\n")
	if h := list().Hooks[0]; h.TrustStatus != "modified" || h.Enabled {
		t.Errorf("after a change: %+v", h)
	}

	var missing struct{ Data []entry }
	c.Call("hooks/list", map[string]any{"cwds": []string{"/no/such/folder"}}, &missing)
	if len(missing.Data) != 1 || len(missing.Data[0].Errors) != 1 {
		t.Errorf("%+v", missing)
	}
	var skills struct {
		Data []struct {
			Cwd    string
			Skills []any
			Errors []any
		}
	}
	c.Call("skills/list", map[string]any{"cwds": []string{r.Dir}}, &skills)
	if len(skills.Data) != 1 || skills.Data[0].Cwd != r.Dir || skills.Data[0].Skills == nil || len(skills.Data[0].Skills) != 0 {
		t.Errorf("%+v", skills)
	}
}

// What is configured, and what the server does.
func TestAppServerCatalog(t *testing.T) {
	t.Parallel()
	r := rig.New(t, idleScript)
	r.Config("provider \"other\" {\n  source   = \"builtin/compatible\"\n  base_url = \"https://me:hush@example.com/v1\"\n  api_key  = env(\"OTHER_KEY\")\n}\n" +
		"provider \"third\" {\n  source  = \"builtin/openai\"\n  api_key = secret(\"third\")\n}\n")
	c := r.AppServer()
	greet(t, c)
	var providers struct {
		Data []struct {
			ID, Name string
			CanEdit  bool
			BaseURL  *string
			Settings struct {
				Type string
				Auth struct{ Mode, EnvKey string }
			}
		}
		DefaultProviderID string
		CanChangeDefault  bool
	}
	c.Call("modelProvider/list", map[string]any{}, &providers)
	if providers.DefaultProviderID != "scripted" || providers.CanChangeDefault || len(providers.Data) != 3 {
		t.Fatalf("%+v", providers)
	}
	for i, want := range []struct{ id, mode, variable, url string }{
		{"scripted", "none", "", ""}, {"other", "environmentVariable", "OTHER_KEY", "https://me:(hidden)@example.com/v1"}, {"third", "externallyConfigured", "", ""},
	} {
		p := providers.Data[i]
		url := ""
		if p.BaseURL != nil {
			url = *p.BaseURL
		}
		if p.ID != want.id || p.Settings.Type != "customGateway" || p.Settings.Auth.Mode != want.mode || p.Settings.Auth.EnvKey != want.variable || url != want.url || p.CanEdit {
			t.Errorf("%+v, want %+v", p, want)
		}
	}
	var profiles struct {
		Data []struct {
			ID, Description string
			Allowed         bool
		}
		NextCursor *string
	}
	c.Call("permissionProfile/list", map[string]any{"limit": 2}, &profiles)
	if len(profiles.Data) != 2 || profiles.Data[0].ID != ":danger-full-access" || !profiles.Data[0].Allowed || profiles.NextCursor == nil {
		t.Fatalf("%+v", profiles)
	}
	c.Call("permissionProfile/list", map[string]any{"cursor": profiles.NextCursor}, &profiles)
	if len(profiles.Data) != 1 || profiles.Data[0].ID != ":workspace" || profiles.NextCursor != nil {
		t.Errorf("%+v", profiles)
	}
	var features struct{ Data []any }
	if c.Call("experimentalFeature/list", map[string]any{}, &features); features.Data == nil || len(features.Data) != 0 {
		t.Errorf("%+v", features)
	}
	if code, message := c.Refused("experimentalFeature/enablement/set", map[string]any{"enablement": map[string]bool{"apps": true}}); code != -32600 || !strings.Contains(message, "apps") {
		t.Errorf("%d %s", code, message)
	}
	begin(t, c, map[string]any{})
	var d struct {
		Process struct{ ID, ResidentMemoryBytes int }
		Gauges  []struct {
			Name  string
			Value int
		}
	}
	c.Call("server/diagnostics", map[string]any{}, &d)
	gauges := map[string]int{}
	for _, g := range d.Gauges {
		gauges[g.Name] = g.Value
	}
	if d.Process.ID == 0 || d.Process.ResidentMemoryBytes < 1<<20 || gauges["connections"] != 1 || gauges["subscriptions"] != 1 || gauges["loadedThreads"] != 1 ||
		gauges["activeThreads"] != 0 || gauges["goroutines"] < 1 {
		t.Errorf("%+v", d)
	}
}

// The folders of the threads that a connection is subscribed to are part of its workspace, each with its own rules.
func TestAppServerWorkspaces(t *testing.T) {
	t.Parallel()
	r := rig.New(t, idleScript)
	r.Write("here/a", "a")
	other, third := filepath.Join(r.Dir, "other"), filepath.Join(r.Dir, "third")
	r.Write("other/b", "b")
	r.Write("third/c", "c")
	here := filepath.Join(r.Dir, "here")
	r.Dir = here
	c := r.AppServer("-c", "sandbox.mode=workspace-write")
	greet(t, c)
	start := func(dir string) string {
		t.Helper()
		var out struct{ Thread struct{ ID string } }
		c.Call("thread/start", map[string]any{"cwd": dir}, &out)
		return out.Thread.ID
	}
	write := func(path string) map[string]any { return map[string]any{"path": path, "dataBase64": "eA=="} }
	id := start(other) // opens the host that both folders share, because neither belongs to a project
	c.Call("fs/writeFile", write(filepath.Join(here, "new")), nil)
	c.Call("fs/writeFile", write(filepath.Join(other, "new")), nil)
	var ran struct{ Stdout string }
	c.Call("command/exec", map[string]any{"command": []string{"sh", "-c", "echo x > made && pwd"}, "cwd": other}, &ran)
	if strings.TrimSpace(ran.Stdout) != other {
		t.Errorf("it ran in %q", ran.Stdout)
	}
	if code, message := c.Refused("fs/writeFile", write(filepath.Join(third, "new"))); code != -32600 || !strings.Contains(message, "outside") {
		t.Errorf("a folder without a thread: %d %s", code, message)
	}
	c.Call("thread/unsubscribe", map[string]any{"threadId": id}, nil)
	if code, message := c.Refused("fs/writeFile", write(filepath.Join(other, "again"))); code != -32600 || !strings.Contains(message, "outside") {
		t.Errorf("after unsubscribing: %d %s", code, message)
	}
}
