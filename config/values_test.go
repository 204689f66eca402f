package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
)

// Settings have their values as JSON and the file that they come from; secrets and functions are not evaluated.
func TestSettings(t *testing.T) {
	root := write(t, map[string]string{
		"home/gantry.hcl": `
default_model = "a"
model "a" {
  provider = "p"
  name     = env("NOT_SET")
}
provider "p" {
  source  = "./p"
  api_key = "sk-secret"
  env { TOKEN = "abc" }
}
sandbox {
  mode           = "read-only"
  writable_roots = ["/a"]
}
store {
  driver = "postgres"
  dsn    = "postgres://me:pw@host/db"
}
profile "x" {
  limits { samplings = 1 }
}
`,
		"project/.gantry/gantry.hcl": "sandbox { network = true }\nlimits { samplings = 3 }\n",
	})
	o := options(root)
	o.Sets = []string{"sandbox.mode=full-access"}
	lines := func(settings []config.Setting) string {
		var b strings.Builder
		for _, s := range settings {
			if s.From.Layer != config.LayerBuiltin {
				fmt.Fprintf(&b, "%s %s %s %s\n", strings.Join(s.Path, "."), s.Value, s.From.Layer, strings.TrimPrefix(s.From.Path, root))
			}
		}
		return b.String()
	}
	want := `default_model "a" user /home/gantry.hcl
model.a.name "env(\"NOT_SET\")" user /home/gantry.hcl
model.a.provider "p" user /home/gantry.hcl
provider.p.source "./p" user /home/gantry.hcl
provider.p.env.TOKEN "(hidden)" user /home/gantry.hcl
sandbox.mode "full-access" -c 
sandbox.network true project /project/.gantry/gantry.hcl
sandbox.writable_roots ["/a"] user /home/gantry.hcl
store.driver "postgres" user /home/gantry.hcl
store.dsn "(hidden)" user /home/gantry.hcl
limits.samplings 3 project /project/.gantry/gantry.hcl
`
	got := lines(mustLoad(t, o).Settings())
	for line := range strings.SplitSeq(want, "\n") {
		if line != "" && !strings.Contains(got, line+"\n") {
			t.Errorf("%s is missing in\n%s", line, got)
		}
	}
	if strings.Contains(got, "secret\"") || strings.Contains(got, "abc") || strings.Contains(got, "pw") || strings.Count(got, "\n") != strings.Count(want, "\n") {
		t.Errorf("got\n%s", got)
	}

	text, err := os.ReadFile(filepath.Join(root, "project/.gantry/gantry.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	settings, ds := config.FileSettings(text, "gantry.hcl")
	if ds.HasErrors() || len(settings) != 2 || settings[0].Path[1] != "network" || string(settings[1].Value) != "3" {
		t.Errorf("%+v, %v", settings, ds)
	}
	if _, ds := config.FileSettings([]byte("a {"), "gantry.hcl"); !ds.HasErrors() {
		t.Error("a broken file has settings")
	}
}

// A text can be checked in the place of the user's file.
func TestUserText(t *testing.T) {
	root := write(t, map[string]string{"home/gantry.hcl": "sandbox { mode = \"read-only\" }\n", "project/x": ""})
	o := options(root)
	o.User = []byte("approval { policy = \"never\" }\n")
	if c := mustLoad(t, o); c.Approval.Policy != "never" || c.Sandbox.Mode == "read-only" {
		t.Errorf("%q, %q", c.Approval.Policy, c.Sandbox.Mode)
	}
	o.User = []byte("approval { policy = \"perhaps\" }\n")
	if _, ds := config.Load(t.Context(), o); !ds.HasErrors() {
		t.Error("an invalid text was accepted")
	}
	o.User = []byte{}
	if c := mustLoad(t, o); c.Sandbox.Mode == "read-only" {
		t.Error("an empty text was not used")
	}
}
