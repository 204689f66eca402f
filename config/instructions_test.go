package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
)

func TestInstructions(t *testing.T) {
	model := func(more string) string {
		return "provider \"p\" {\n source = \"builtin/openai\"\n}\nmodel \"m\" {\n provider = \"p\"\n name = \"x\"\n" + more + "}\n"
	}
	for name, c := range map[string]struct {
		text string
		want config.Instructions
		own  string // the model's
	}{
		"nothing said": {model(""), config.Instructions{MaxBytes: 32768, RootMarkers: []string{".git"}}, ""},
		"all of it": {"instructions {\n text = file(\"agent.md\")\n max_bytes = 10\n root_markers = [\"go.mod\", \".hg\"]\n fallback_files = [\"CLAUDE.md\"]\n}\n" +
			model("instructions = file(\"agent.md\")\n"),
			config.Instructions{Text: "be kind", MaxBytes: 10, RootMarkers: []string{"go.mod", ".hg"}, Fallbacks: []string{"CLAUDE.md"}}, "be kind"},
		"off": {"instructions {\n max_bytes = 0\n root_markers = []\n}\n" + model(""), config.Instructions{RootMarkers: []string{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c0 := mustLoad(t, options(write(t, map[string]string{"home/gantry.hcl": c.text, "home/agent.md": "be kind\n"})))
			if !reflect.DeepEqual(c0.Instructions, c.want) {
				t.Errorf("%+v, want %+v", c0.Instructions, c.want)
			}
			if m, ok := c0.Model("m"); !ok || m.Instructions != c.own {
				t.Errorf("the model's own: %+v, want %q", m, c.own)
			}
		})
	}
	for _, value := range []string{"", ".", "..", "a/b", "/AGENTS.md", "../x"} {
		for _, setting := range []string{"fallback_files", "root_markers"} {
			root := write(t, map[string]string{"home/gantry.hcl": "instructions {\n " + setting + " = [\"" + value + "\"]\n}\n"})
			_, ds := config.Load(t.Context(), options(root))
			if err := ds.Err(); err == nil || !strings.Contains(err.Error(), setting) {
				t.Errorf("%s = [%q]: %v", setting, value, err)
			}
		}
	}
}
