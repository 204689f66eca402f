package review

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run is git, as a test may have it.
func run(ctx context.Context, dir string, argv ...string) (Output, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return Output{}, err
	}
	return Output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}, nil
}

// looks runs git, as confined as it says.
func looks(confined bool) Git {
	return func(ctx context.Context, dir string, args ...string) (Output, bool, error) {
		out, err := run(ctx, dir, append([]string{"git"}, args...)...)
		return out, confined, err
	}
}

// nothing is denied.
func nothing(string, string) bool { return false }

// repository makes one with a commit on main, a branch "work" with one more, and nothing else.
func repository(t *testing.T) (dir string, git func(args ...string)) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	dir = t.TempDir()
	git = func(args ...string) {
		t.Helper()
		if out, err := run(t.Context(), dir, append([]string{"git"}, args...)...); err != nil || out.Code != 0 {
			t.Fatalf("git %v: %v %s", args, err, out.Stderr)
		}
	}
	git("init", "-q", "-b", "main")
	write(t, dir, "a.txt", "one\n")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	git("checkout", "-q", "-b", "work")
	write(t, dir, "a.txt", "one\ntwo\n")
	git("commit", "-q", "-a", "-m", "second: a line")
	return dir, git
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSubjects(t *testing.T) {
	dir, git := repository(t)
	fresh := t.TempDir()
	if out, err := run(t.Context(), fresh, "git", "init", "-q"); err != nil || out.Code != 0 {
		t.Fatal(err, out.Stderr)
	}
	write(t, fresh, "new.txt", "x\n")
	changed := t.TempDir()
	git("worktree", "add", "-q", "-b", "third", filepath.Join(changed, "w"))
	changed = filepath.Join(changed, "w")
	write(t, changed, "a.txt", "one\ntwo\nthree\n")
	write(t, changed, "b.txt", "new\n")
	large := t.TempDir()
	git("worktree", "add", "-q", "-b", "large", filepath.Join(large, "w"))
	large = filepath.Join(large, "w")
	write(t, large, "a.txt", strings.Repeat("a longer line\n", 10_000))

	r := New(Config{Git: looks(false), Denied: nothing})
	for name, tc := range map[string]struct {
		dir    string
		target Target
		hint   string
		asked  []string // stands in the question
		err    string
	}{
		"uncommitted":        {changed, Target{Kind: Uncommitted}, "uncommitted changes", []string{"+three", "b.txt", "`git diff HEAD`"}, ""},
		"before any commit":  {fresh, Target{Kind: Uncommitted}, "uncommitted changes", []string{"new.txt"}, ""},
		"nothing is changed": {dir, Target{Kind: Uncommitted}, "", nil, "no uncommitted changes; next: use --base BRANCH"},
		"beyond a branch":    {dir, Target{Kind: BaseBranch, Branch: "main"}, "changes against main", []string{"+two", `"main"`, "git diff "}, ""},
		"beyond itself":      {dir, Target{Kind: BaseBranch, Branch: "work"}, "", nil, "there is nothing to review"},
		"unknown branch":     {dir, Target{Kind: BaseBranch, Branch: "nope"}, "", nil, `no branch "nope" here; next: ` + "`git branch --all`"},
		"an option":          {dir, Target{Kind: BaseBranch, Branch: "--output=x"}, "", nil, "is no branch"},
		"no branch":          {dir, Target{Kind: BaseBranch}, "", nil, "the name of the branch is empty"},
		"commit":             {dir, Target{Kind: Commit, SHA: "HEAD"}, ": second: a line", []string{"+two", "second: a line"}, ""},
		"unknown commit":     {dir, Target{Kind: Commit, SHA: "feed"}, "", nil, `no commit "feed"`},
		"too large to show":  {large, Target{Kind: Uncommitted}, "uncommitted changes", []string{"the beginning and the end", "truncated…"}, ""},
		"no repository":      {t.TempDir(), Target{Kind: Uncommitted}, "", nil, "not a git repository"},
		"in words":           {t.TempDir(), Target{Kind: Custom, Instructions: "look at the tests\nand more"}, "look at the tests", []string{"and more"}, ""},
		"no words":           {dir, Target{Kind: Custom, Instructions: " "}, "", nil, "the instructions are empty"},
		"unknown kind":       {dir, Target{Kind: "x"}, "", nil, `invalid kind of review "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := r.subject(t.Context(), tc.dir, tc.target)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q in it", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(s.hint, tc.hint) {
				t.Errorf("hint %q, want %q", s.hint, tc.hint)
			}
			for _, want := range tc.asked {
				if !strings.Contains(s.prompt, want) {
					t.Errorf("%q is not in the question:\n%.2000s", want, s.prompt)
				}
			}
			if len(s.prompt) > 2*shownDiff {
				t.Errorf("the question has %d bytes", len(s.prompt))
			}
		})
	}
}

// Where git is not confined, none of the programs that a repository names runs.
func TestNothingOfTheRepositoryRuns(t *testing.T) {
	dir, git := repository(t)
	trace := filepath.Join(t.TempDir(), "ran")
	evil := filepath.Join(dir, "evil")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\n: > '"+trace+"'\ncat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"filter.x.clean": evil, "filter.x.required": "true", "filter.y.z.process": evil, "filter.y.z.required": "true", "core.fsmonitor": evil,
		"diff.external": evil, "diff.x.textconv": evil, "diff.x.command": evil, "log.showSignature": "true", "gpg.program": evil, "core.pager": evil,
	} {
		git("config", key, value)
	}
	write(t, dir, ".gitattributes", "a.txt filter=x diff=x\nb.txt filter=y.z\n")
	write(t, dir, "a.txt", "one\ntwo\nthree\n")
	write(t, dir, "b.txt", "new\n")
	r := New(Config{Git: looks(false), Denied: nothing})
	for _, target := range []Target{{Kind: Uncommitted}, {Kind: BaseBranch, Branch: "main"}, {Kind: Commit, SHA: "HEAD"}} {
		s, err := r.subject(t.Context(), dir, target)
		if err != nil || !strings.Contains(s.prompt, "+two") && !strings.Contains(s.prompt, "+three") {
			t.Errorf("%s: %v\n%s", target.Kind, err, s.prompt)
		}
		if _, err := os.Stat(trace); err == nil {
			t.Errorf("%s: a program ran", target.Kind)
		}
	}
	// Confined, filters do their work.
	if _, err := New(Config{Git: looks(true), Denied: nothing}).subject(t.Context(), dir, Target{Kind: Uncommitted}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(trace); err != nil {
		t.Error("a confined filter did not run")
	}
	git("config", "filter.x=y.clean", evil)
	if _, err := r.subject(t.Context(), dir, Target{Kind: Uncommitted}); err == nil || !strings.Contains(err.Error(), `"filter.x=y.clean"`) {
		t.Errorf("a name that can't be turned off: %v", err)
	}
}

// What deny_read names is no part of the question, under none of its names and in no kind of change; one line says so.
func TestDeniedFilesAreLeftOut(t *testing.T) {
	dir, git := repository(t)
	sub := filepath.Join(dir, "sub")
	if err := os.MkdirAll(filepath.Join(sub, "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	const old, secret = "token = old-secret\n", "token = s3cret\n"
	for _, name := range []string{".env", "sub/.env", "sub/keys/ä b\nc", "sub/moved", "sub/:(top)x.env"} {
		write(t, dir, name, strings.Repeat("line\n", 20)+old)
	}
	git("add", ".")
	git("commit", "-q", "-m", "keys")
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(sub, linked); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".env", "sub/.env", "sub/keys/ä b\nc", "sub/:(top)x.env"} {
		write(t, dir, name, strings.Repeat("line\n", 20)+secret)
	}
	write(t, dir, "a.txt", "one\ntwo\nthree\n")
	write(t, dir, "sub/new.env", secret)
	git("mv", "sub/moved", "sub/keys/moved.env")
	denied := func(_, path string) bool {
		return strings.HasSuffix(path, ".env") || strings.HasPrefix(path, filepath.Join(linked, "keys")) || strings.HasPrefix(path, filepath.Join(sub, "keys"))
	}
	r := New(Config{Git: looks(false), Denied: denied})
	check := func(target Target, in string, want ...string) {
		t.Helper()
		s, err := r.subject(t.Context(), in, target)
		if err != nil {
			t.Errorf("%s in %s: %v", target.Kind, in, err)
			return
		}
		for _, w := range want {
			if !strings.Contains(s.prompt, w) {
				t.Errorf("%s in %s: %q is not in the question:\n%s", target.Kind, in, w, s.prompt)
			}
		}
		if strings.Contains(s.prompt, "s3cret") {
			t.Errorf("%s in %s: what is denied is in the question:\n%s", target.Kind, in, s.prompt)
		}
	}
	leftOut := "Left out, since sandbox { deny_read } names them: .env, sub/.env, "
	for _, in := range []string{dir, sub, linked} {
		check(Target{Kind: Uncommitted}, in, leftOut, "+three", "new.env")
		check(Target{Kind: BaseBranch, Branch: "work~1"}, in, leftOut, "+three")
	}
	git("checkout", "-q", "-b", "side")
	git("add", ".")
	git("commit", "-q", "-m", "side")
	check(Target{Kind: Commit, SHA: "side"}, dir, leftOut, "+three")
	// Only what is denied is changed.
	write(t, dir, ".env", "token = other s3cret\n")
	if _, err := r.subject(t.Context(), dir, Target{Kind: Uncommitted}); err == nil || !strings.Contains(err.Error(), "only files are changed that sandbox { deny_read } names") {
		t.Errorf("only denied changes: %v", err)
	}
	// A merge that changes a denied file itself.
	git("commit", "-q", "-a", "-m", "x")
	git("checkout", "-q", "-b", "other", "side")
	write(t, dir, ".env", "token = third s3cret\n")
	write(t, dir, "a.txt", "one\n2\n3\n")
	git("commit", "-q", "-a", "-m", "y")
	git("checkout", "-q", "side")
	write(t, dir, "a.txt", "one\ntwo\nanother\n")
	git("commit", "-q", "-a", "-m", "z")
	if out, err := run(t.Context(), dir, "git", "merge", "-q", "other"); err != nil || out.Code == 0 {
		t.Fatal("the merge has no conflict: ", err, out)
	}
	write(t, dir, ".env", "token = merged s3cret\n")
	write(t, dir, "a.txt", "one\nmerged\n")
	git("commit", "-q", "-a", "-m", "merge")
	check(Target{Kind: Commit, SHA: "HEAD"}, dir, "Left out, since sandbox { deny_read } names them: .env.", "++merged")
	bare := t.TempDir()
	git("clone", "-q", "--bare", ".", bare)
	check(Target{Kind: Commit, SHA: "work"}, bare, leftOut)
}
