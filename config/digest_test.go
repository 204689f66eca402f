package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-agent/gantry/config/trust"
)

func TestDigest(t *testing.T) {
	root := write(t, map[string]string{
		"home/gantry.hcl":            "approval { policy = \"never\" }\n",
		"plain/file":                 "",
		"other/deep/file":            "",
		"project/.gantry/gantry.hcl": "sandbox { mode = \"read-only\" }\n",
	})
	store := trust.Open(filepath.Join(root, "home"))
	o := options(root)
	o.Trusted = store.Trusted
	in := func(dir string) string {
		o := o
		o.Dir = filepath.Join(root, dir)
		return mustLoad(t, o).Digest()
	}
	plain, project := in("plain"), in("project")
	if in("other/deep") != plain {
		t.Error("two folders without a project differ")
	}
	if project == plain {
		t.Error("a project is like no project")
	}
	o.Dir = filepath.Join(root, "project")
	c := mustLoad(t, o)
	if err := store.Add(t.Context(), c.Project.Dir, c.Project.Digest); err != nil {
		t.Fatal(err)
	}
	if trusted := in("project"); trusted == project {
		t.Error("trust changes nothing")
	}
	set := o
	set.Dir, set.Sets = filepath.Join(root, "plain"), []string{"approval.policy=on-request"}
	if mustLoad(t, set).Digest() == plain {
		t.Error("a setting of the command line changes nothing")
	}
	if err := os.WriteFile(filepath.Join(root, "home", "gantry.hcl"), []byte("approval { policy = \"on-request\" }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if in("plain") == plain {
		t.Error("a changed file changes nothing")
	}
}
