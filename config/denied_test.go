package config_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
)

func loadSandbox(t *testing.T, system, project string) (root string, c *config.Config, err error) {
	t.Helper()
	root = write(t, map[string]string{"system/gantry.hcl": system, "project/.gantry/gantry.hcl": project})
	c, ds := config.Load(t.Context(), config.Options{
		Home: filepath.Join(root, "home"), Dir: filepath.Join(root, "project"), System: filepath.Join(root, "system", "gantry.hcl"),
		LookupEnv: func(name string) (string, bool) { return root, name == "HOME" }, Trusted: func(string, string) bool { return true },
	})
	return root, c, ds.Err()
}

func TestDeniedPaths(t *testing.T) {
	t.Parallel()
	root, c, err := loadSandbox(t, `sandbox {
  deny_read  = ["/srv/keys", "**/*.pem"]
  deny_write = ["**/*.lock"]
}`, `sandbox {
  readable_roots = ["./lib", "/opt/data"]
  deny_read      = ["**/*.pem", "~/private", "./conf/[a-z]*"]
}`)
	if err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(root, "project")
	for _, list := range []struct{ got, want []string }{
		{c.Sandbox.DenyRead, []string{"**/*.pem", root + "/private", project + "/conf/[a-z]*", "/srv/keys"}},
		{c.Sandbox.DenyWrite, []string{"**/*.lock"}},
		{c.Sandbox.ReadableRoots, []string{project + "/lib", "/opt/data"}},
	} {
		if !slices.Equal(list.got, list.want) {
			t.Errorf("%q, want %q", list.got, list.want)
		}
	}
}

// What can't be enforced is no configuration: a typo must not leave something open.
func TestDeniedPathsThatAreWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`""`: "Empty pattern: use a path", `"**"`: `"**" matches everything`, `"/**/*.pem"`: "doesn't start with a folder", `"../x"`: `".."`, `"/"`: "matches everything",
		`"a/*\\"`: "invalid \"*", `null`: "is null", `"./**"`: "",
	} {
		_, _, err := loadSandbox(t, "", "sandbox {\n  deny_read = ["+text+"]\n}")
		if (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if _, _, err := loadSandbox(t, "sandbox {\n  deny_write = ["+text+"]\n}", ""); strings.Count(fmt.Sprint(err), want) != 1 && want != "" {
			t.Errorf("%s: %v, want %q once", text, err, want)
		}
	}
}
