package tools

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/tool"
)

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
