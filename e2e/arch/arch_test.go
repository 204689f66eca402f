package arch_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/arch"
)

var update = flag.Bool("update", false, "write the lists of dependencies anew")

// workspace is the root of the repository, seen from here.
const workspace = "../.."

func TestRules(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs(workspace)
	if err != nil {
		t.Fatal(err)
	}
	w, err := arch.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range w.Check() {
		t.Error(p)
	}
}

// The packages of each binary are a committed list, so that growth is a line in a diff.
func TestDependencies(t *testing.T) {
	t.Parallel()
	for name, pkg := range arch.Binaries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deps, err := arch.Dependencies(workspace, pkg)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "deps-"+name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(strings.Join(deps, "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			b, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Fields(string(b))
			for _, d := range deps {
				if !slices.Contains(want, d) {
					t.Errorf("%s links %s now; if that is meant, run `go test ./e2e/arch -update` and say in the commit what it is for", name, d)
				}
			}
			for _, d := range want {
				if !slices.Contains(deps, d) {
					t.Errorf("%s does not link %s any more; run `go test ./e2e/arch -update`", name, d)
				}
			}
		})
	}
}
