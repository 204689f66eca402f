//go:build unix

package agentsfile

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// project is a folder tree: files by path, "LINK target" makes a link, "FIFO" a pipe, "DIR" a folder.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		put(t, filepath.Join(root, path), text)
	}
	return root
}

func put(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		target, link := strings.CutPrefix(text, "LINK ")
		switch {
		case link:
			err = os.Symlink(target, path)
		case text == "FIFO":
			err = syscall.Mkfifo(path, 0o644)
		case text == "DIR":
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, []byte(text), 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	long := strings.Repeat("x", 40<<10)
	for name, c := range map[string]struct {
		files    map[string]string
		dir      string // in the tree
		change   func(*Config)
		want     string
		warnings []string // a piece of each
	}{
		"none":               {map[string]string{"p/.git": "DIR"}, "p", nil, "", nil},
		"one":                {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "use tabs\n"}, "p", nil, "use tabs\n", nil},
		"from the top down":  {map[string]string{"AGENTS.md": "no", "p/.git": "gitdir: x", "p/AGENTS.md": "one\n", "p/a/AGENTS.md": "two", "p/a/b/AGENTS.md": "three", "p/c/AGENTS.md": "no"}, "p/a/b", nil, "one\n\n\ntwo\n\nthree", nil},
		"the nearest top":    {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "no", "p/a/.git": "DIR", "p/a/AGENTS.md": "one"}, "p/a", nil, "one", nil},
		"no top":             {map[string]string{"p/AGENTS.md": "no", "p/a/AGENTS.md": "one"}, "p/a", func(c *Config) { c.RootMarkers = []string{".nowhere"} }, "one", nil},
		"no markers":         {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "no", "p/a/AGENTS.md": "one"}, "p/a", func(c *Config) { c.RootMarkers = nil }, "one", nil},
		"another marker":     {map[string]string{"p/go.mod": "", "p/AGENTS.md": "one", "p/a/AGENTS.md": "two"}, "p/a", func(c *Config) { c.RootMarkers = []string{".hg", "go.mod"} }, "one\n\ntwo", nil},
		"override":           {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "no", "p/AGENTS.override.md": "one"}, "p", nil, "one", nil},
		"an empty override":  {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "no", "p/AGENTS.override.md": " \n"}, "p", nil, "", nil},
		"other names":        {map[string]string{"p/.git": "DIR", "p/CLAUDE.md": "one", "p/a/CLAUDE.md": "no", "p/a/AGENTS.md": "two"}, "p/a", func(c *Config) { c.Fallbacks = []string{"X.md", "CLAUDE.md"} }, "one\n\ntwo", nil},
		"blank ones":         {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "\n \t", "p/a/AGENTS.md": "one"}, "p/a", nil, "one", nil},
		"off":                {map[string]string{"home/AGENTS.md": "all", "p/.git": "DIR", "p/AGENTS.md": "no"}, "p", func(c *Config) { c.MaxBytes = 0 }, "all", nil},
		"for all projects":   {map[string]string{"home/AGENTS.md": "all\n", "p/.git": "DIR", "p/AGENTS.md": "one"}, "p", nil, "all\n\n\n--- project-doc ---\n\none", nil},
		"override for all":   {map[string]string{"home/AGENTS.md": "no", "home/AGENTS.override.md": "all", "p/.git": "DIR"}, "p", nil, "all", nil},
		"not in the budget":  {map[string]string{"home/AGENTS.md": "all all", "p/.git": "DIR", "p/AGENTS.md": "one"}, "p", func(c *Config) { c.MaxBytes = 3 }, "all all\n\n--- project-doc ---\n\none", nil},
		"in gantry's folder": {map[string]string{"home/AGENTS.md": "all", "home/.git": "DIR"}, "home", nil, "all", nil},
		"too long": {map[string]string{"p/.git": "DIR", "p/AGENTS.md": long, "p/a/AGENTS.md": strings.Repeat("y", 1<<10)}, "p/a", nil, long[:32768],
			[]string{"p/AGENTS.md are cut: 32768 of 40960 bytes", "no room for the instructions in"}},
		"cut in a character": {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "aäö"}, "p", func(c *Config) { c.MaxBytes = 4 }, "aä\uFFFD", []string{"are cut: 4 of 5"}},
		"not UTF-8":          {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "a\xffb"}, "p", nil, "a\uFFFDb", nil},
		"a pipe":             {map[string]string{"p/.git": "DIR", "p/AGENTS.override.md": "FIFO", "p/AGENTS.md": "one"}, "p", nil, "one", []string{"not a regular file"}},
		"a folder":           {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "DIR"}, "p", nil, "", []string{"not a regular file"}},
		"a link inside":      {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "LINK docs/agents.md", "p/docs/agents.md": "one"}, "p", nil, "one", nil},
		"a link out":         {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "LINK ../key", "key": "secret"}, "p", nil, "", []string{"leads out of the project"}},
		"a link of links":    {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "LINK docs", "p/docs": "LINK /etc/hostname"}, "p", nil, "", []string{"leads out of the project"}},
		"a link to what is denied": {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "LINK keys/x.env", "p/keys/x.env": "secret", "p/a/AGENTS.md": "one"}, "p/a", func(c *Config) {
			c.Denied = func(dir, path string) bool {
				return filepath.Base(dir) == "a" && strings.HasSuffix(path, "/p/keys/x.env")
			}
		}, "one", []string{"deny_read"}},
		"a link to itself":   {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "LINK AGENTS.md"}, "p", nil, "", []string{"too many levels"}},
		"a link to nothing":  {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "LINK nowhere"}, "p", nil, "", nil},
		"a device":           {map[string]string{"p/.git": "DIR", "p/AGENTS.md": "LINK /dev/zero"}, "p", nil, "", []string{"not a regular file"}},
		"own folder's link":  {map[string]string{"home/AGENTS.md": "LINK ../dotfiles", "dotfiles": "all", "p/.git": "DIR"}, "p", nil, "all", nil},
		"the folder is gone": {nil, "p", nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := project(t, c.files)
			cfg := Config{Home: filepath.Join(root, "home"), MaxBytes: 32768, RootMarkers: []string{".git"}}
			if c.change != nil {
				c.change(&cfg)
			}
			got := New(cfg).Read(filepath.Join(root, c.dir))
			if got.Text != c.want {
				t.Errorf("%.200q, want %.200q", got.Text, c.want)
			}
			if len(got.Warnings) != len(c.warnings) {
				t.Fatalf("warnings: %q, want %q", got.Warnings, c.warnings)
			}
			for i, w := range got.Warnings {
				if !strings.Contains(w.Text, c.warnings[i]) || w.Next == "" {
					t.Errorf("warning %q, want %q", w, c.warnings[i])
				}
			}
		})
	}
}

// A link that is exchanged while it is read leads to nothing but what was judged.
func TestLinksThatAreExchanged(t *testing.T) {
	root := project(t, map[string]string{"p/.git": "DIR", "p/one": "one", "key": "secret", "p/AGENTS.md": "one"})
	path := filepath.Join(root, "p/AGENTS.md")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if os.Symlink([]string{"../key", "one"}[i%2], path+".new") == nil {
				_ = os.Rename(path+".new", path)
			}
		}
	})
	for range 2000 {
		if got := New(Config{MaxBytes: 100, RootMarkers: []string{".git"}}).Read(filepath.Join(root, "p")); strings.Contains(got.Text, "secret") {
			t.Errorf("%+v", got)
			break
		}
	}
	close(stop)
	swapping.Wait()
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	root := project(t, map[string]string{"p/.git": "DIR", "p/AGENTS.md": "no", "p/a/AGENTS.md": "one"})
	if err := os.Chmod(filepath.Join(root, "p/AGENTS.md"), 0); err != nil {
		t.Fatal(err)
	}
	got := New(Config{MaxBytes: 100, RootMarkers: []string{".git"}}).Read(filepath.Join(root, "p/a"))
	if got.Text != "one" || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0].Text, "permission denied") {
		t.Errorf("%+v", got)
	}
}

// A look sees whatever could change what holds, and reads nothing as long as all looks the same.
func TestLook(t *testing.T) {
	root := project(t, map[string]string{"home/x": "", "p/.git": "DIR", "p/AGENTS.md": "one", "p/a/b/x": ""})
	r := New(Config{Home: filepath.Join(root, "home"), MaxBytes: 1000, RootMarkers: []string{".git"}})
	dir := filepath.Join(root, "p/a/b")
	look := func(what, want string) {
		t.Helper()
		if got := r.Look(dir).Text; got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	remove := func(path string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
	look("at first", "one")
	put(t, filepath.Join(root, "p/AGENTS.md"), "one!")
	look("an edit", "one!")
	put(t, filepath.Join(root, "p/a/AGENTS.md"), "two")
	look("a new file", "one!\n\ntwo")
	put(t, filepath.Join(root, "p/a/AGENTS.override.md"), "zwei")
	look("an override", "one!\n\nzwei")
	put(t, filepath.Join(root, "p/a/.git"), "DIR")
	look("a nearer top", "zwei")
	remove("p/a/.git")
	remove("p/a/AGENTS.override.md")
	look("back", "one!\n\ntwo")
	put(t, filepath.Join(root, "home/AGENTS.md"), "all")
	look("for all projects", "all\n\n--- project-doc ---\n\none!\n\ntwo")
	remove("home")
	remove("p/a/AGENTS.md")
	remove("p/AGENTS.md")
	look("nothing left", "")

	// Of the same length and time: only reading shows it, which is what a turn begins with.
	path := filepath.Join(root, "p/AGENTS.md")
	put(t, path, "before")
	at := time.Now().Add(-time.Hour)
	chtimes := func() {
		t.Helper()
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	chtimes()
	look("before", "before")
	put(t, path, "behind")
	chtimes()
	look("unseen, so it was not read", "before")
	if got := r.Read(dir).Text; got != "behind" {
		t.Errorf("read: %q", got)
	}
}

func BenchmarkLook(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "a/b/c/d/e/f")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "AGENTS.md"), make([]byte, 20<<10), 0o644); err != nil {
		b.Fatal(err)
	}
	r := New(Config{MaxBytes: 32768, RootMarkers: []string{".git"}})
	for b.Loop() {
		r.Look(dir)
	}
}

// A file of another user in a folder above, which anyone may write, is not what the user wants.
func TestFilesOfOthers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	const other, third = 65534, 65533
	for name, c := range map[string]struct {
		owners map[string]int
		want   string
	}{
		"of another":              {map[string]int{"AGENTS.md": other}, "mine"},
		"of the folder's owner":   {map[string]int{"AGENTS.md": other, "a": other, "a/AGENTS.md": other}, "theirs\n\nmine"},
		"of a third":              {map[string]int{"AGENTS.md": third, "a": other, "a/AGENTS.md": other}, "mine"},
		"in the folder itself":    {map[string]int{"a/AGENTS.md": other}, "theirs\n\nmine"},
		"a link to one's own":     {map[string]int{}, "theirs\n\nmine"},
		"the marker is another's": {map[string]int{".git": other, "AGENTS.md": other}, "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			root := project(t, map[string]string{".git": "DIR", "AGENTS.md": "theirs", "a/AGENTS.md": "mine"})
			for path, uid := range c.owners {
				if err := os.Chown(filepath.Join(root, path), uid, uid); err != nil {
					t.Fatal(err)
				}
			}
			f := New(Config{MaxBytes: 1 << 20, RootMarkers: []string{".git"}}).Read(filepath.Join(root, "a"))
			if f.Text != c.want || (len(f.Warnings) == 1 && strings.Contains(f.Warnings[0].Text, "another user")) != (c.want == "mine") {
				t.Errorf("%q, %v", f.Text, f.Warnings)
			}
		})
	}
}
