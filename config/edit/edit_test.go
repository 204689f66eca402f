package edit

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const file = `# My settings.

# The shell comes along.
plugin "shell" {
  source = "builtin/shell" # beside gantry
}

# Weather, for the demo.
// Two lines of it.
plugin "weather" {
    source   = "./bin/weather"
  config { units = "metric" }
} # the end of it

model "default" {
  provider = "p"
}
`

func TestAdd(t *testing.T) {
	got, err := Add([]byte(file), "gantry.hcl", Block{"provider", "scripted"}, Argument{"source", "builtin/scripted"}, Argument{"version", `~> 1.0 "${x}"`})
	if err != nil {
		t.Fatal(err)
	}
	want := file + `
provider "scripted" {
  source  = "builtin/scripted"
  version = "~> 1.0 \"$${x}\""
}
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := Add(got, "gantry.hcl", Block{"provider", "scripted"}); err == nil || !strings.Contains(err.Error(), "gantry.hcl:19") {
		t.Errorf("a second block of that name: %v", err)
	}
	if got, err = Add(nil, "gantry.hcl", Block{"plugin", "a"}, Argument{"source", "./a"}); err != nil || string(got) != "plugin \"a\" {\n  source = \"./a\"\n}\n" {
		t.Errorf("into nothing: %q, %v", got, err)
	}
}

func TestRemove(t *testing.T) {
	for _, c := range []struct {
		block Block
		want  string
	}{
		{Block{"plugin", "shell"}, "# My settings.\n\n# Weather" + strings.SplitN(file, "# Weather", 2)[1]},
		{Block{"plugin", "weather"}, strings.SplitN(file, "# Weather", 2)[0] + "model" + strings.SplitN(file, "model", 2)[1]},
		{Block{"model", "default"}, strings.TrimSuffix(strings.SplitN(file, "model", 2)[0], "\n")},
	} {
		got, removed, err := Remove([]byte(file), "gantry.hcl", c.block)
		if err != nil || !removed || string(got) != c.want {
			t.Errorf("%s: %v, %v, got\n%s\nwant\n%s", c.block, removed, err, got, c.want)
		}
		if has, err := Has(got, "gantry.hcl", c.block); has || err != nil {
			t.Errorf("%s is still there (%v)", c.block, err)
		}
	}
	got, removed, err := Remove([]byte(file), "gantry.hcl", Block{"provider", "weather"})
	if string(got) != file || removed || err != nil {
		t.Errorf("a block that is not there: %v, %v", removed, err)
	}
	if got, _, err = Remove([]byte("plugin \"a\" {\r\n}"), "gantry.hcl", Block{"plugin", "a"}); len(got) != 0 || err != nil {
		t.Errorf("the only block: %q, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	for name, src := range map[string]string{"gantry.hcl": "plugin {{", "gantry.hcl.json": "{}", "big.hcl": strings.Repeat("#\n", 200_000)} {
		if _, err := Add([]byte(src), name, Block{"plugin", "a"}); err == nil {
			t.Errorf("%s: added", name)
		}
		if _, _, err := Remove([]byte(src), name, Block{"plugin", "a"}); err == nil {
			t.Errorf("%s: removed", name)
		}
	}
}

func TestUpdateKeepsModeAndLink(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real", "gantry.hcl"), filepath.Join(dir, "gantry.hcl")
	if err := os.Mkdir(filepath.Dir(real), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(real, []byte("# a\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip(err)
	}
	add := func(old []byte) ([]byte, error) { return append(bytes.Clone(old), "# b\n"...), nil }
	if err := Update(t.Context(), link, 0o600, add); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(real)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode = %v, %v", info, err)
	}
	if l, err := os.Lstat(link); err != nil || l.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", l, err)
	}
	if b, _ := os.ReadFile(real); string(b) != "# a\n# b\n" {
		t.Errorf("content %q", b)
	}
	fresh := filepath.Join(dir, "new", "gantry.hcl")
	if err := Update(t.Context(), fresh, 0o600, add); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(fresh); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("new file: %v, %v", info, err)
	}
}

// What was removed after being added leaves the text as it was, whatever else stands in it.
func FuzzAddRemove(f *testing.F) {
	f.Add(file, "x")
	f.Add("", "shell")
	f.Add("plugin \"x\" {}\n/* a */ plugin \"y\" {}", "y")
	f.Fuzz(func(t *testing.T, src, label string) {
		b := Block{"plugin", label}
		added, err := Add([]byte(src), "gantry.hcl", b, Argument{"source", label})
		if err != nil {
			return
		}
		if has, err := Has(added, "gantry.hcl", b); err != nil || !has {
			t.Skip() // a label that HCL reads as something else
		}
		if _, removed, err := Remove(added, "gantry.hcl", b); err != nil || !removed {
			t.Fatalf("not removed: %v in %q", err, added)
		}
	})
}
