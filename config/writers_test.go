//go:build unix

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
)

// Whoever may write the user's files runs programs as the user: that is said, and nothing else is.
func TestFilesThatOthersMayWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		path string
		mode os.FileMode
		gid  int // 0: the user's own
		want string
	}{
		"as they should be":    {"gantry.hcl", 0o600, 0, ""},
		"by all":               {"gantry.hcl", 0o666, 0, "every user (mode 0666)"},
		"the folder":           {"", 0o777, 0, "every user (mode 0777)"},
		"rules":                {"rules/x.rules", 0o602, 0, "every user (mode 0602)"},
		"hooks":                {"hooks.json", 0o666, 0, "every user"},
		"by the user's group":  {"gantry.hcl", 0o664, 0, ""},
		"by a group of others": {"gantry.hcl", 0o664, 65534, "a group (mode 0664)"},
		"read by a group":      {"gantry.hcl", 0o644, 65534, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.gid != 0 && os.Getuid() != 0 {
				t.Skip("only root gives files away")
			}
			root := write(t, map[string]string{"home/gantry.hcl": "", "home/rules/x.rules": "", "home/hooks.json": "{}", "project/x": ""})
			for _, dir := range []string{"home", "home/rules"} {
				if err := os.Chmod(filepath.Join(root, dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			p := filepath.Join(root, "home", tc.path)
			if tc.gid != 0 {
				if err := os.Chown(p, 0, tc.gid); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(p, tc.mode); err != nil {
				t.Fatal(err)
			}
			_, ds := config.Load(t.Context(), options(root))
			var said []string
			for _, d := range ds {
				if strings.Contains(d.Summary, "can be written by") {
					said = append(said, d.Summary)
				}
			}
			if got := strings.Join(said, "\n"); tc.want == "" && got != "" || len(said) > 1 || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
