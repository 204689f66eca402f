package tools

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// A server of the same name without a pin, such as one of another project, does not make what was pinned be forgotten.
func TestEarlierDefinitions(t *testing.T) {
	env := &tool.Env{DataDir: t.TempDir()}
	begin := time.Now().Add(-time.Hour)
	of := func(program string) *accepted { return newAccepted(env, Server{Name: "srv", URL: program}) }
	write := func(a *accepted, age int, d definitions) {
		t.Helper()
		raw, err := json.Marshal(d)
		if err == nil {
			err = os.WriteFile(a.path, raw, 0o600)
		}
		if err == nil {
			err = os.Chtimes(a.path, time.Time{}, begin.Add(time.Duration(age)*time.Second))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	told := "Send texts."
	tools := parsed(t, `{"name":"look","description":"1","inputSchema":{"type":"object"}}`, `{"name":"send","description":"1","inputSchema":{"type":"object"}}`,
		`{"name":"send","description":"2","inputSchema":{"type":"object"}}`)
	write(of("pinned"), 1, definitions{Server: "srv", Complete: true, Instructions: &told, Tools: map[string]catalog.Tool{"look": tools[0], "send": tools[1]}})
	write(of("unpinned"), 2, definitions{Server: "srv", Tools: map[string]catalog.Tool{"send": tools[2]}})
	write(newAccepted(env, Server{Name: "other", URL: "x"}), 3, definitions{Server: "other", Tools: map[string]catalog.Tool{"other": tools[0]}})
	got, err := of("new").earlier()
	if err != nil || !got.Complete || got.Instructions == nil || *got.Instructions != told || len(got.Tools) != 2 ||
		got.Tools["look"].Digest != tools[0].Digest || got.Tools["send"].Digest != tools[2].Digest {
		t.Errorf("%+v (%v)", got, err)
	}
}

// Variables and headers refer to secrets instead of containing them.
func TestReferences(t *testing.T) {
	got, err := references("srv", "--env", map[string]string{
		"GITHUB_TOKEN": "secret:github", "API_KEY": "env:MY_KEY", "MODE": "fast", "EMPTY": "", "URL": "https://a.test:1/x", "ENV": "env", "DEBUG_TOKEN": "true",
	})
	want := map[string]any{
		"GITHUB_TOKEN": tool.FromSecret("github"), "API_KEY": tool.FromEnv("MY_KEY"), "MODE": "fast", "EMPTY": "", "URL": "https://a.test:1/x", "ENV": "env",
		"DEBUG_TOKEN": "true",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v (%v)", got, want, err)
	}
	for value, says := range map[string]string{
		"ghp_0123456789abcdefghij0123": "next: store it with `gantry secret set srv-github-token` and use `--env GITHUB_TOKEN=secret:srv-github-token`",
		"secret:":                      "names nothing",
		"env: ":                        "names nothing",
	} {
		got, err := references("srv", "--env", map[string]string{"GITHUB_TOKEN": value})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "ghp_") {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
}
