//go:build linux

package tree_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch/box/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What root may list and watch an ordinary user may not.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this is one already")
	}
	t.Parallel()
	const nobody = 65534
	dir, err := os.MkdirTemp("/var/tmp", "gantry-tree-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	program := filepath.Join(dir, "tree.test")
	b, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(program, b, 0o755))
	cmd := exec.CommandContext(t.Context(), program, "-test.short="+strconv.FormatBool(testing.Short()))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if text := string(out); err != nil || strings.Contains(text, "no tests to run") || !strings.Contains(text, "PASS") {
		t.Errorf("%v\n%s", err, text)
	}
}

var rules = tree.Rules{
	Names: []string{".git", ".codex"}, Enter: []string{".git"}, Marks: []string{"head", "objects", "refs", "commondir"}, Shapes: []uint8{1 | 2 | 4, 1 | 8},
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, root string, o tree.Options) *tree.Tree {
	t.Helper()
	o.Rules = rules
	x, err := tree.Open(root, o)
	must(t, err)
	t.Cleanup(func() { must(t, x.Close()) })
	return x
}

// noted is what a tree says, by path.
func noted(t testing.TB, x *tree.Tree) map[string]string {
	t.Helper()
	if _, err := x.Settle(); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range x.Noted() {
		out[f.Path] = fmt.Sprintf("%d %d %q %b %q %v", f.ID.Dev, f.ID.Ino, sorted(f.Named), f.Marks, sorted(f.Rights), f.Closed)
	}
	for _, f := range x.Linked() {
		out[f.Path] += fmt.Sprintf(" links %d %+v", f.Dev, f.Links)
	}
	return out
}

func sorted(s []string) string {
	m := map[string]bool{}
	for _, x := range s {
		m[x] = true
	}
	return fmt.Sprint(m)
}

// compare holds what a tree says against what another one says that has read everything just now.
func compare(t testing.TB, x *tree.Tree, root, when string) {
	t.Helper()
	fresh, err := tree.Open(root, tree.Options{Rules: rules, Walk: true})
	must(t, err)
	defer fresh.Close()
	got, want := noted(t, x), noted(t, fresh)
	if !reflect.DeepEqual(got, want) {
		for p := range want {
			if got[p] != want[p] {
				t.Errorf("%s: %s is %q, want %q", when, p, got[p], want[p])
			}
		}
		for p := range got {
			if want[p] == "" {
				t.Errorf("%s: %s is noted: %q", when, p, got[p])
			}
		}
		t.FailNow()
	}
}

// mess changes something somewhere.
func mess(r *rand.Rand, root string, walk bool) {
	dirs := []string{root}
	_ = filepath.WalkDir(root, func(p string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, p)
		}
		return nil
	})
	dir := func() string { return dirs[r.IntN(len(dirs))] }
	name := func() string {
		all := []string{"a", "b", "c", "d", ".git", ".codex", "HEAD", "objects", "refs", "commondir", "x", "y", ".GIT"}
		return all[r.IntN(len(all))]
	}
	switch r.IntN(11) {
	case 0, 1, 2:
		_ = os.Mkdir(filepath.Join(dir(), name()), 0o755)
	case 3:
		_ = os.MkdirAll(filepath.Join(dir(), name(), name(), name()), 0o755)
	case 4:
		p := filepath.Join(dir(), name())
		if walk {
			_ = os.Remove(p) // writing takes the setuid bit away, unless it is root who writes
		}
		_ = os.WriteFile(p, []byte("x"), 0o644)
	case 5, 6:
		from := dir()
		if from != root {
			_ = os.Rename(from, filepath.Join(dir(), name()))
		}
	case 7:
		if d := dir(); d != root && r.IntN(3) == 0 {
			_ = os.RemoveAll(d)
		}
	case 8:
		_ = os.Remove(filepath.Join(dir(), name()))
	case 9:
		p := filepath.Join(dir(), name())
		if walk {
			_ = os.Remove(p) // a change of rights alone is no change to the folder
			_ = os.WriteFile(p, nil, 0o644)
		}
		if info, err := os.Lstat(p); err == nil && info.Mode().IsRegular() {
			_ = os.Chmod(p, 0o755|os.ModeSetuid)
		}
	case 10:
		_ = os.Remove(filepath.Join(dir(), name()))
	}
}

// Whatever is done to folders, what is known of them is what another look at all of them finds.
func TestTreeMatchesFileSystem(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		for _, walk := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/walk=%v", seed, walk), func(t *testing.T) {
				t.Parallel()
				root, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
				r := rand.New(rand.NewPCG(seed, 1))
				for range 40 {
					mess(r, root, walk)
				}
				x := open(t, root, tree.Options{Walk: walk, Cache: cache})
				for i := range 40 {
					for range 1 + r.IntN(8) {
						mess(r, root, walk)
					}
					if !walk && i == 20 && seed%4 == 3 {
						x.LoseWatches()
					}
					compare(t, x, root, fmt.Sprintf("round %d", i))
				}
				if s := x.Stats(); s.Watched == (walk || seed%4 == 3) || s.Watched == (s.Why != "") {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// Links are counted of each name alone: that another was made is known when its folder changes.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	root, out := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(out, "f"), nil, 0o644))
	x := open(t, root, tree.Options{})
	must(t, os.Link(filepath.Join(out, "f"), filepath.Join(root, "f")))
	if _, err := x.Settle(); err != nil || len(x.Linked()) != 1 || len(x.Linked()[0].Links) != 1 {
		t.Fatalf("%+v, %v", x.Linked(), err)
	}
	before, _ := x.Settle()
	must(t, os.WriteFile(filepath.Join(root, "other"), nil, 0o644))
	if after, _ := x.Settle(); after.Links != before.Links {
		t.Error("another file has changed the links")
	}
	must(t, os.Rename(filepath.Join(root, "f"), filepath.Join(root, "g")))
	if after, _ := x.Settle(); after.Links == before.Links || len(x.Linked()) != 1 {
		t.Error("another name has not changed the links")
	}
	must(t, os.Rename(filepath.Join(root, "g"), filepath.Join(root, "f")))
	before, _ = x.Settle()
	must(t, os.Remove(filepath.Join(root, "f")))
	if after, _ := x.Settle(); after.Links == before.Links || len(x.Noted()) != 0 || len(x.Linked()) != 0 {
		t.Errorf("%+v", x.Linked())
	}
}

// While folders are moved about nothing is made out of it that stays wrong.
func TestConcurrentlyMovedFolders(t *testing.T) {
	t.Parallel()
	for run, walk := range []bool{true, false, false, false, false} { // what goes wrong with notifications does so now and then
		t.Run(fmt.Sprintf("%d/walk=%v", run, walk), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for i := range 30 {
				must(t, os.MkdirAll(filepath.Join(root, "s", fmt.Sprint(i), "deep/er/.git"), 0o755))
			}
			var x *tree.Tree
			var movers sync.WaitGroup
			for m := range 2 {
				movers.Go(func() { // waited for below
					r := rand.New(rand.NewPCG(uint64(m), 2))
					for range 400 {
						a, b := filepath.Join(root, "s", fmt.Sprint(r.IntN(30))), filepath.Join(root, "s", fmt.Sprint(r.IntN(30)), "deep")
						_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, filepath.Join(root, "s", fmt.Sprint(r.IntN(30))), unix.RENAME_EXCHANGE)
						_ = os.Rename(a, filepath.Join(b, fmt.Sprint(r.IntN(30))))
						_ = os.Rename(filepath.Join(b, fmt.Sprint(r.IntN(30))), a)
						_ = os.MkdirAll(filepath.Join(a, "new/.codex"), 0o755)
						_ = os.RemoveAll(filepath.Join(b, "new"))
					}
				})
			}
			x = open(t, root, tree.Options{Walk: walk}) // it is read while they work
			over := make(chan struct{})
			go func() { // owned by this test, ended by the movers
				movers.Wait()
				close(over)
			}()
			for busy := true; busy; {
				select {
				case <-over:
					busy = false
				default:
				}
				if _, err := x.Settle(); err != nil {
					t.Fatal(err)
				}
			}
			compare(t, x, root, "afterwards")
		})
	}
}

// What the kernel could not queue is found all the same.
func TestTooManyNotifications(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "a/b"), 0o755))
	x := open(t, root, tree.Options{})
	compare(t, x, root, "before")
	x.Deaf(func() {
		for i := range 17_000 {
			p := filepath.Join(root, "a/b", fmt.Sprint("f", i%2))
			must(t, os.WriteFile(p, nil, 0o644))
			must(t, os.Remove(p))
		}
		must(t, os.MkdirAll(filepath.Join(root, "a/b/new/.git"), 0o755))
		must(t, os.MkdirAll(filepath.Join(root, "a/.codex"), 0o755))
	})
	compare(t, x, root, "afterwards")
	must(t, os.MkdirAll(filepath.Join(root, "a/b/new/more/.git"), 0o755))
	compare(t, x, root, "later")
	if !x.Stats().Watched {
		t.Error(x.Stats().Why)
	}
}

// Paths that are longer than the kernel takes at once are nothing special.
func TestDeepFolders(t *testing.T) {
	t.Parallel()
	for _, walk := range []bool{false, true} {
		root := t.TempDir()
		x := open(t, root, tree.Options{Walk: walk})
		noted(t, x)
		name := strings.Repeat("d", 200)
		at, err := unix.Open(root, unix.O_PATH, 0)
		must(t, err)
		for range 40 {
			must(t, unix.Mkdirat(at, name, 0o755))
			next, err := unix.Openat(at, name, unix.O_PATH, 0)
			must(t, err)
			must(t, unix.Close(at))
			at = next
		}
		if got := noted(t, x); len(got) != 0 {
			t.Errorf("%v", got)
		}
		must(t, unix.Mkdirat(at, ".codex", 0o755))
		must(t, unix.Close(at))
		if got := noted(t, x); len(got) != 1 {
			t.Errorf("walk %v: %v", walk, got)
		}
		compare(t, x, root, "deep")
	}
}

// A folder of which a part is on a file system where others may change folders unheard is compared.
func TestRootFolder(t *testing.T) {
	t.Parallel()
	for _, walk := range []bool{false, true} {
		for name, do := range map[string]func(root string) error{
			"removed":  os.RemoveAll,
			"moved":    func(root string) error { return os.Rename(root, root+"2") },
			"replaced": func(root string) error { return errors.Join(os.Rename(root, root+"2"), os.Mkdir(root, 0o755)) },
		} {
			root := filepath.Join(t.TempDir(), "root")
			must(t, os.MkdirAll(filepath.Join(root, "a"), 0o755))
			x := open(t, root, tree.Options{Walk: walk})
			noted(t, x)
			must(t, do(root))
			if _, err := x.Settle(); !errors.Is(err, tree.ErrGone) {
				t.Errorf("%s, walk %v: %v", name, walk, err)
			}
		}
	}
}

// What was written by one process is good for the next, as far as nothing has changed.
func TestTreeFile(t *testing.T) {
	t.Parallel()
	root, cache := t.TempDir(), filepath.Join(t.TempDir(), "sub", "cache")
	for i := range 600 {
		must(t, os.MkdirAll(filepath.Join(root, fmt.Sprint(i), "x"), 0o755))
	}
	must(t, os.MkdirAll(filepath.Join(root, "5/x/.git/hooks"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "6/f"), nil, 0o4755))
	must(t, os.Chmod(filepath.Join(root, "6/f"), 0o755|os.ModeSetuid))
	must(t, os.Link(filepath.Join(root, "6/f"), filepath.Join(root, "7/g")))
	one, err := tree.Open(root, tree.Options{Rules: rules, Cache: cache})
	must(t, err)
	noted(t, one)
	must(t, one.Close())
	must(t, os.RemoveAll(filepath.Join(root, "8")))
	must(t, os.MkdirAll(filepath.Join(root, "9/x/.codex"), 0o755))
	must(t, os.Rename(filepath.Join(root, "5"), filepath.Join(root, "10/five")))
	// It changes without a change to its folder.
	must(t, os.Chmod(filepath.Join(root, "6/f"), 0o755))
	two := open(t, root, tree.Options{Cache: cache})
	<-two.Ready()
	if !two.Stats().Loaded {
		t.Error("it was not taken from its file")
	}
	if !two.Wait(time.Minute) || !two.Stats().Watched {
		t.Errorf("%+v", two.Stats())
	}
	compare(t, two, root, "loaded")
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		mess(r, root, false)
		compare(t, two, root, "later")
	}
	// What is not to be believed is not.
	b, err := os.ReadFile(cache)
	must(t, err)
	for i := 0; i < len(b); i += 1 + len(b)/60 {
		broken := append([]byte(nil), b...)
		broken[i] ^= 0x41
		file := filepath.Join(t.TempDir(), "cache")
		must(t, os.WriteFile(file, broken, 0o600))
		x, err := tree.Open(root, tree.Options{Rules: rules, Cache: file, Walk: true})
		must(t, err)
		<-x.Ready()
		if x.Stats().Loaded {
			t.Errorf("byte %d may be anything", i)
		}
		must(t, x.Close())
	}
}

// Folders that are loaded from the file are watched while others change them and while commands look; nothing is missed.
func TestChangesDuringAdoption(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			root, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
			for i := range 600 {
				must(t, os.MkdirAll(filepath.Join(root, fmt.Sprint(i%7), fmt.Sprint(i%50), fmt.Sprint(i)), 0o755))
			}
			one, err := tree.Open(root, tree.Options{Rules: rules, Cache: cache})
			must(t, err)
			noted(t, one)
			must(t, one.Close())
			r := rand.New(rand.NewPCG(seed, 3))
			for range 20 { // what no process has seen
				mess(r, root, false)
			}
			two := open(t, root, tree.Options{Cache: cache}.Steps(3))
			<-two.Ready()
			if !two.Stats().Loaded {
				t.Error("it was not taken from its file")
			}
			for i := range 30 {
				mess(r, root, false)
				if i%3 == 0 {
					compare(t, two, root, fmt.Sprint("change ", i))
				}
			}
			if !two.Wait(time.Minute) || !two.Stats().Watched {
				t.Errorf("%+v", two.Stats())
			}
			for i := range 30 {
				mess(r, root, false)
				compare(t, two, root, fmt.Sprint("later change ", i))
			}
		})
	}
}

// Where the file system takes several spellings for one name, each of them is what the name is. Two names of one file stand for
// such a file system.
func TestEquivalentSpellings(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"a/.git", "b/.CODEX", "c/.GIT"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
	}
	must(t, os.Link(filepath.Join(root, "a/.git"), filepath.Join(root, "a/.Git")))
	x := open(t, root, tree.Options{})
	noted(t, x)
	for _, f := range x.Noted() {
		if want := map[string]int{"a": 1}[filepath.Base(f.Path)]; len(f.Named) != want {
			t.Errorf("in %s lies %q", f.Path, f.Named)
		}
	}
	if len(x.Noted()) != 1 {
		t.Errorf("%+v", x.Noted())
	}
}

// A folder that can't be listed is noted, and what is in it once it can.
func TestClosedFolders(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root lists everything; TestAsAnOrdinaryUser tries this")
	}
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "shut/.codex"), 0o755))
	must(t, os.Chmod(filepath.Join(root, "shut"), 0o311))
	x := open(t, root, tree.Options{})
	if noted(t, x); len(x.Noted()) != 1 || !x.Noted()[0].Closed {
		t.Fatalf("%+v", x.Noted())
	}
	must(t, os.Chmod(filepath.Join(root, "shut"), 0o755))
	compare(t, x, root, "opened")
}

// Nothing that is in a folder's name or file can end the host.
func FuzzStore(f *testing.F) {
	root, cache := f.TempDir(), filepath.Join(f.TempDir(), "cache")
	must(f, os.WriteFile(cache, []byte("x"), 0o600))
	f.Add([]byte("gantry tree 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) { tree.Decode(root, b) })
}
