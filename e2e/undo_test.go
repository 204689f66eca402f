package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// patches is a model that applies patches, one in each request, and then says that it is done, and so on with each task.
func patches(turns ...[]string) string {
	var b strings.Builder
	n := 0
	for i, turn := range turns {
		for _, p := range turn {
			n++
			if cmd, ok := strings.CutPrefix(p, "$ "); ok {
				fmt.Fprintf(&b, "[[step]]\ndo = [{ call = \"exec_command\", id = \"c%d\", args = { cmd = %q, login = false } }]\n", n, cmd)
				continue
			}
			fmt.Fprintf(&b, "[[step]]\ndo = [{ call = \"apply_patch\", id = \"c%d\", freeform = '''\n*** Begin Patch\n%s\n*** End Patch\n''' }]\n", n, p)
		}
		b.WriteString("[[step]]\ndo = [{ text = \"done\" }]\n")
		if i == len(turns)-1 {
			b.WriteString("times = -1\n") // a host that is killed may have asked before
		}
	}
	return b.String()
}

const (
	updateF = "*** Update File: f\n@@\n-before\n+after"
	addNew  = "*** Add File: dir/new\n+made"
	growNew = "*** Update File: dir/new\n@@\n made\n+more"
	moveOld = "*** Update File: old\n*** Move to: moved\n@@\n-x\n+y"
	dropDel = "*** Delete File: del"
)

// project is what stands in the project's folder: path → mode and content.
func project(t *testing.T, r *rig.Rig) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(r.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == r.Dir {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		name, _ := filepath.Rel(r.Dir, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			out[name+"/"] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		out[name] = fmt.Sprintf("%v %s", info.Mode(), b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s:\n%v\nwant\n%v", what, got, want)
	}
}

func seed(t *testing.T, r *rig.Rig) {
	t.Helper()
	r.Write("f", "before\n")
	r.Write("old", "x\n")
	r.Write("del", "gone\n")
	if err := os.Chmod(filepath.Join(r.Dir, "del"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, r *rig.Rig, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = r.Dir, strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out.String())
	}
	return out.String()
}

// A turn patches, moves, adds and deletes. Its diff is one that git takes back; undo does the same to the last bit, and redo
// brings all of it back.
func TestDiffUndoRedo(t *testing.T) {
	t.Parallel()
	r := rig.New(t, patches([]string{updateF, addNew, growNew, moveOld, dropDel}, []string{"$ true"}))
	seed(t, r)
	git(t, r, "", "init", "-q", ".")
	before := project(t, r)
	res := r.OK("exec", "--events", "do it")
	after := project(t, r)
	var diffs []string
	var kinds []string
	for _, e := range rig.Events(t, res.Stdout) {
		switch e.Kind {
		case "turn.diff":
			var d struct{ Diff string }
			e.Into(t, &d)
			diffs = append(diffs, d.Diff)
		case "files.kept", "files.changed", "call.started", "item.completed", "call.ended", "turn.ended":
		default:
			continue
		}
		kinds = append(kinds, e.Kind)
	}
	if len(diffs) != 6 || diffs[4] != diffs[5] {
		t.Errorf("%d diffs, want one for each patch and the last once more: %v", len(diffs), kinds)
	}
	call := []string{"call.started", "files.kept", "files.changed", "item.completed", "turn.diff", "call.ended"}
	if at := slices.Index(kinds, "call.started"); at < 0 || !slices.Equal(kinds[at:at+len(call)], call) {
		t.Errorf("events of a patch: %v", kinds)
	}
	if n := len(kinds); kinds[n-1] != "turn.ended" || kinds[n-2] != "turn.diff" {
		t.Errorf("the turn ends with %v", kinds[n-2:])
	}

	shown := r.OK("diff").Stdout
	if shown != diffs[len(diffs)-1] {
		t.Errorf("gantry diff prints\n%s, the event has\n%s", shown, diffs[len(diffs)-1])
	}
	for _, want := range []string{
		"diff --git a/f b/f\nindex ", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-before\n+after\n", "--- a/old\n+++ b/moved\n",
		"diff --git a/dir/new b/dir/new\nnew file mode 100644\n", "@@ -0,0 +1,2 @@\n+made\n+more\n", "deleted file mode 100755\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("the diff has no\n%s\nin\n%s", want, shown)
		}
	}
	git(t, r, shown, "apply", "-R", "-")
	delete(before, "dir/") // git leaves it
	now := project(t, r)
	delete(now, "dir/")
	same(t, "after git apply -R", now, before)
	git(t, r, shown, "apply", "-")
	same(t, "after git apply", project(t, r), after)

	// A dry run says what would be done, with a diff that does it.
	dry := r.OK("undo", "--dry-run")
	same(t, "after a dry run", project(t, r), after)
	for _, want := range []string{"would put back f", "would bring back del", "would bring back old", "would remove moved", "would remove " + filepath.Join("dir", "new")} {
		if !strings.Contains(dry.Stderr, want) {
			t.Errorf("the dry run says %q, without %q", dry.Stderr, want)
		}
	}
	git(t, r, dry.Stdout, "apply", "--check", "-")

	r.OK("undo")
	same(t, "after undo", project(t, r), before)
	if res := r.Gantry("undo"); res.Code != 1 || !strings.Contains(res.Stderr, "no turn of the thread has file changes") {
		t.Errorf("a second undo: exit %d, %s", res.Code, res.Stderr)
	}
	var redone struct {
		Undo   string
		Undoes []string
		Files  []struct{ Path, Action string }
	}
	if err := json.Unmarshal([]byte(r.OK("undo", "--redo", "--json").Stdout), &redone); err != nil {
		t.Fatal(err)
	}
	same(t, "after redo", project(t, r), after)
	if len(redone.Files) != 5 || redone.Undo == "" {
		t.Errorf("redo reports %+v", redone)
	}
	if got := r.OK("diff", "--turn", redone.Undo).Stdout; got != shown {
		t.Errorf("the diff of what brought it back is\n%s", got)
	}
	r.OK("undo", "--turn", redone.Undo)
	same(t, "after the undo of the redo", project(t, r), before)

	// The model reads of it when the thread goes on, once.
	r.OK("resume", "--last", "go on")
	told := 0
	for _, text := range r.Last().Texts(llm.RoleUser) {
		if strings.HasPrefix(text, "<files_restored>") {
			told++
			if !strings.Contains(text, filepath.Join(r.Dir, "dir", "new")) {
				t.Errorf("the model reads %q", text)
			}
		}
	}
	if told != 1 {
		t.Errorf("the model is told %d times that files were put back", told)
	}
	r.NothingLeft()
}

// What was changed since is named and stays; force takes it, and gives it back.
func TestUndoOfWhatWasChangedSince(t *testing.T) {
	t.Parallel()
	r := rig.New(t, patches([]string{updateF, addNew}))
	seed(t, r)
	r.OK("exec", "do it")
	r.Write("f", "mine\n")
	now := project(t, r)
	res := r.Gantry("undo")
	if res.Code != 1 || !strings.Contains(res.Stderr, "f: it has been changed since") || !strings.Contains(res.Stderr, "--force") || strings.Contains(res.Stderr, "dir/new:") {
		t.Errorf("exit %d\n%s", res.Code, res.Stderr)
	}
	same(t, "after a refused undo", project(t, r), now)
	var report struct {
		Refused bool
		Files   []struct{ Path, Action, Obstacle, Reason string }
	}
	if res = r.Gantry("undo", "--json"); res.Code != 1 {
		t.Errorf("exit %d", res.Code)
	}
	if err := json.Unmarshal([]byte(res.Stdout), &report); err != nil || !report.Refused || len(report.Files) != 2 {
		t.Errorf("%v: %s", err, res.Stdout)
	}
	r.OK("undo", "--force")
	if r.Read("f") != "before\n" || r.Read("dir/new") != "" {
		t.Errorf("after force: %v", project(t, r))
	}
	r.OK("undo", "--redo")
	same(t, "after redo", project(t, r), now)
}

// Undo goes back turn by turn. Formatting what was patched belongs to the turn, other work of commands does not, and is said to be
// left.
func TestUndoTurnByTurn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, patches([]string{updateF, "$ tr a-z A-Z < f > g && cat g > f"}, []string{"*** Update File: f\n@@\n-AFTER\n+third"}))
	seed(t, r)
	r.OK("exec", "one")
	r.OK("resume", "--last", "two")
	if out := r.OK("diff", "--turn", "1"); !strings.Contains(out.Stdout, "-before\n+AFTER\n") || strings.Contains(out.Stdout, "b/g") || !strings.Contains(out.Stderr, "1 command ran") {
		t.Errorf("the first turn: %s%s", out.Stdout, out.Stderr)
	}
	if out := r.OK("threads", "show", "--diff", threads(t, r)[0].ID).Stdout; !strings.Contains(out, "+AFTER") || !strings.Contains(out, "+third") || !strings.Contains(out, "1 file changed, +1 −1") {
		t.Errorf("show --diff prints\n%s", out)
	}
	r.OK("undo")
	if got := r.Read("f"); got != "AFTER\n" {
		t.Errorf("after one undo f is %q", got)
	}
	if res := r.OK("undo"); !strings.Contains(res.Stderr, "their changes to other files are kept") {
		t.Errorf("undo says %q", res.Stderr)
	}
	if f, g := r.Read("f"), r.Read("g"); f != "before\n" || g == "" {
		t.Errorf("after two undos f is %q, g %q", f, g)
	}
}

// A host that is killed in the middle of a patch: what stood there was on the disk before, so the way back is there.
func TestUndoAfterKill(t *testing.T) {
	t.Parallel()
	for _, resume := range []bool{false, true} {
		t.Run(fmt.Sprintf("resumed %v", resume), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, patches([]string{updateF + "\n" + addNew}))
			seed(t, r)
			before := project(t, r)
			run := r.Start("exec", "--events", "do it")
			r.Until("the patch was applied", func() bool { return r.Read("dir/new") != "" })
			run.Signal(os.Kill)
			run.Wait()
			if resume {
				r.OK("resume", "--last", "go on")
			}
			if out := r.OK("diff").Stdout; !strings.Contains(out, "-before\n+after\n") {
				t.Errorf("the diff is\n%s", out)
			}
			r.OK("undo")
			same(t, "after undo", project(t, r), before)
			r.OK("undo", "--redo")
			if r.Read("f") != "after\n" || r.Read("dir/new") != "made\n" {
				t.Errorf("after redo: %v", project(t, r))
			}
		})
	}
}

// The same at the very moment between the change and its record: the log ends with what was kept.
func TestUndoOfAnUnrecordedChange(t *testing.T) {
	t.Parallel()
	r := rig.New(t, patches([]string{updateF + "\n" + addNew}))
	seed(t, r)
	before := project(t, r)
	r.OK("exec", "do it")
	after := project(t, r)
	log := r.OK("threads", "export", threads(t, r)[0].ID, "--output", "-").Stdout
	var cut strings.Builder
	for line := range strings.Lines(log) {
		cut.WriteString(line)
		if strings.Contains(line, `"kind":"files.kept"`) {
			break
		}
	}
	other := rig.New(t, "")
	other.Dir = r.Dir
	if err := os.CopyFS(filepath.Join(other.Home, "artifacts"), os.DirFS(filepath.Join(r.Home, "artifacts"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(other.Home, "cut.jsonl")
	other.Write(path, cut.String())
	other.OK("threads", "import", "--partial", path)
	if out := other.OK("diff"); !strings.Contains(out.Stdout, "-before\n+after\n") || !strings.Contains(out.Stdout, "+made\n") || strings.Contains(out.Stderr, "before it recorded") {
		t.Errorf("the diff is\n%s%s", out.Stdout, out.Stderr)
	}
	// What is neither what stood there nor what was to come may be anybody's.
	other.Write("f", "mine\n")
	if res := other.Gantry("undo"); res.Code != 1 || !strings.Contains(res.Stderr, "gantry was ended while it was being changed") {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	other.Write("f", "after\n")
	other.OK("undo")
	same(t, "after undo", project(t, other), before)
	other.OK("undo", "--redo")
	same(t, "after redo", project(t, other), after)
}

// An undo that is killed at any moment leaves whole files; the next one does the rest, and redo brings back all.
func TestUndoIsKilled(t *testing.T) {
	t.Parallel()
	const files = 40
	lines := strings.Repeat("line\n", 2000)
	var patch strings.Builder
	for i := range files {
		fmt.Fprintf(&patch, "*** Update File: d/%d\n@@\n-before\n+after\n", i)
	}
	r := rig.New(t, patches([]string{strings.TrimSpace(patch.String())}))
	for i := range files {
		r.Write(fmt.Sprintf("d/%d", i), "before\n"+lines)
	}
	before := project(t, r)
	r.OK("exec", "do it")
	after := project(t, r)
	for round, when := range []struct {
		what string
		seen func() bool
	}{
		{"it writes beside the files", func() bool { return len(beside(t, r)) > 0 }},
		{"it has written beside many", func() bool { return len(beside(t, r)) > files }},
		{"the first file is back", func() bool { return r.Read("d/0") == "before\n"+lines }},
		{"the last file is back", func() bool { return r.Read("d/9") == "before\n"+lines }},
	} {
		run := r.Start("undo")
		r.Until(when.what, func() bool { return when.seen() || gone(run) })
		_ = run.Cmd.Process.Kill() // it may have ended
		run.Wait()
		for name, is := range project(t, r) {
			if !strings.Contains(name, ".gantry-undo-") && is != before[name] && is != after[name] {
				t.Fatalf("round %d: %s is neither what it was nor what it was made", round, name)
			}
		}
		if res := r.Gantry("undo"); res.Code != 0 && !strings.Contains(res.Stderr, "no turn of the thread has file changes") {
			t.Fatalf("round %d: undo after a kill: %s", round, res.Stderr)
		}
		same(t, fmt.Sprintf("round %d: after the next undo", round), project(t, r), before)
		r.OK("undo", "--redo")
		same(t, fmt.Sprintf("round %d: after redo", round), project(t, r), after)
	}
}

// beside are the files that an undo has left beside others.
func beside(t *testing.T, r *rig.Rig) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.Dir, "d", ".gantry-undo-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// gone tells that a run has ended and waits to be looked at.
func gone(run *rig.Run) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", run.Cmd.Process.Pid))
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}
