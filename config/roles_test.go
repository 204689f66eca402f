package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/config"
)

// A project's role files are part of what the user trusts, also without a configuration file.
func TestRoleFilesAreTrusted(t *testing.T) {
	t.Parallel()
	root := write(t, map[string]string{"home/gantry.hcl": "", "project/.gantry/agents/sub/a.md": "one", "project/.gantry/agents/b.toml": "two", "project/.gantry/agents/c.txt": "three"})
	dir := filepath.Join(root, "project")
	find := func() *config.Project {
		p, err := config.FindProject(dir, filepath.Join(root, "home"))
		if err != nil || p == nil {
			t.Fatalf("no project: %v", err)
		}
		return p
	}
	p := find()
	var paths, shown []string
	for _, r := range p.Roles {
		paths = append(paths, r.Path[len(dir):]+" "+r.Text)
	}
	for _, s := range p.Shown() {
		shown = append(shown, s.Path[len(dir):]+" "+s.Text)
	}
	if want := []string{"/.gantry/agents/b.toml two", "/.gantry/agents/sub/a.md one"}; !slices.Equal(paths, want) || !slices.Equal(shown, want) {
		t.Errorf("roles %q, shown %q", paths, shown)
	}
	if err := os.WriteFile(filepath.Join(dir, ".gantry/agents/sub/a.md"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if find().Digest == p.Digest {
		t.Error("another text of a role has the same digest")
	}
}

// Commands can't write in folders that roles are read from.
func TestRoleFolders(t *testing.T) {
	t.Parallel()
	root := write(t, map[string]string{"home/gantry.hcl": "agents {\n  roles = [\"./ro*les\"]\n  budget {\n    usd = 2\n  }\n}\n" +
		"agent \"explorer\" {\n  without = [\"apply_*\"]\n  budget {\n    tokens = 5\n  }\n  limits {\n    samplings = 3\n  }\n  sandbox {\n    network = false\n    deny_read = [\"*.pem\"]\n  }\n}\n"})
	c, ds := config.Load(t.Context(), options(root))
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	if got := c.Sandbox.DenyWrite; len(got) != 1 || filepath.Base(got[0]) != `ro\*les` {
		t.Errorf("commands can't write %q", got)
	}
	if len(c.Agents.Roles) != 1 || c.Agents.Budget.USD != 2 {
		t.Fatalf("%+v", c.Agents)
	}
	r := c.Agents.Roles[0]
	if !slices.Equal(r.Without, []string{"apply_*"}) || r.Budget.Tokens != 5 || r.Samplings != 3 || !r.Sandbox.NoNetwork || !slices.Equal(r.Sandbox.DenyRead, []string{"*.pem"}) || r.Tools != nil {
		t.Errorf("%+v", r)
	}
}
