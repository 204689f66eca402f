package attacks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// metadata are the rows about what others execute later, or take for their settings.
var metadata = []row{
	{id: "M1", attempt: "write `.git/config`, a hook, or `core.hooksPath`", required: "denied", codex: "EROFS", tries: []try{
		{do: `echo '[alias] st = !evil' >> .git/config`, says: readOnly},
		{do: `echo evil > .git/hooks/post-merge`, says: readOnly},
		{do: `git config core.hooksPath .`, says: readOnly},
	}},
	{id: "M2", attempt: "`git commit` in the workspace", required: "denied unless `.git` is opened", codex: "EROFS, index.lock", tries: []try{
		{do: `git -c core.hooksPath=/dev/null commit -q --allow-empty -m x`, says: readOnly},
	}},
	{id: "M3", attempt: "remove or move `.git`, or move another folder over it", required: "denied", codex: "EROFS, EBUSY", tries: []try{
		{do: `rm -rf .git && [ ! -e .git ]`, says: readOnly},
		{do: `mv .git moved`, says: busy},
		{do: `mkdir other && rm -rf .git; mv -T other .git`, says: "busy"},
	}},
	{id: "M4", attempt: "make `.agents`, `.codex` and the like where they are missing: a folder, a link, a file", required: "not there afterwards", codex: "EEXIST, EROFS, EBUSY", ours: "moved aside before the end of the command is reported", flow: missingMetadata,
		tests: []string{"host/internal/launch/box TestExecutedFilesAreQuarantined"}},
	{id: "M5", attempt: "`.codex` is a symbolic link: to inside, to outside, to nowhere", required: "nothing starts", codex: "fatal, exit 1", ours: "nothing starts, and it says which link", flow: linkedMetadata},
	{id: "M6", attempt: "`.git` is a file that names the repository's folder, in the workspace or outside", required: "both are protected", codex: "EROFS, EBUSY", tries: []try{
		{do: `echo evil > tree/.git`, says: readOnly},
		{do: `echo evil > store/worktrees/tree/config`, says: readOnly},
		{do: `mv store/worktrees/tree store/moved`, says: busy},
		{do: `echo evil > ../far/.git`, says: readOnly},
		{do: `echo evil > ../out/git/config`, says: readOnly},
	}},
	{id: "M7", attempt: "start in a folder below the repository and make `.git` there, with a hook and settings that name programs", required: "nothing in it is executed afterwards", codex: "EEXIST, EROFS", ours: "made; the hook and the settings are moved aside", flow: belowTheRepository},
	{id: "M8", attempt: "the same as a race: make it and end at once", required: "no hook is ever there afterwards", codex: "0 of 5 survived", ours: "0 of 5 survive", flow: belowTheRepositoryAsARace},
	{id: "M9", attempt: "rename a prepared folder into the place of `.git` or `.agents`", required: "denied, or not there afterwards", codex: "EXDEV", ours: "EBUSY; in the place of what is missing: moved aside", tries: []try{
		{do: `mkdir -p prep2/.git/hooks && rm -rf .git; mv -T prep2/.git .git`, says: "busy"},
	}, flow: renamedMetadata},
	{id: "M10", attempt: "a hook of a repository further down, `lib/.git/hooks/x`", required: "denied", codex: "written", escaped: true, tries: []try{
		{do: `echo evil > lib/.git/hooks/post-merge`, says: readOnly},
		{do: `echo '[core] fsmonitor = evil' >> lib/.git/config`, says: readOnly},
		{do: `cp lib/.git/config c && echo evil >> c && mv -f c lib/.git/config`, says: "busy"},
		{do: `echo evil > app/.codex/config.toml`, says: readOnly},
	}, tests: []string{"host/internal/launch/box TestExecutedFilesAreQuarantined"}},
	{id: "M11", attempt: "make `sub/.codex`, or a repository with hooks, further down", required: "not there afterwards; an empty repository may be", codex: "made", escaped: true,
		ours: "moved aside before the end of the command is reported", tries: []try{
			{do: `mkdir -p sub/.codex deep/er/.agents && echo evil > sub/.codex/config.toml`, works: true},
			{do: `mkdir -p sub/.git/hooks && echo ref: refs/heads/main > sub/.git/HEAD && echo evil > sub/.git/hooks/post-checkout`, works: true},
			{do: `git init -q new`, works: true},
		}, flow: func(t *testing.T, w *world) {
			for _, p := range []string{"sub/.codex", "deep/er/.agents", "sub/.git/hooks/post-checkout"} {
				if exists(filepath.Join(w.ws, p)) {
					t.Errorf("%s is there", p)
				}
			}
			if !exists(filepath.Join(w.ws, "new/.git/HEAD")) {
				t.Error("a new repository is gone")
			}
		}, tests: []string{"host/internal/launch/box TestExecutedFilesAreQuarantined"}},
	{id: "M12", attempt: "another spelling, `.GIT`", required: "denied where the file system takes both for one name, else allowed", codex: "allowed", ours: "allowed where it is another name", tries: []try{
		{do: `mkdir .GIT && echo x > .GIT/x && [ ! -e .git/x ]`, works: true},
	}, tests: []string{"host/internal/launch/box/tree TestEquivalentSpellings"}},
	{id: "M13", attempt: "files that other programs execute: `Makefile`, `.envrc`, `package.json`, `.vscode/tasks.json`, `.husky`, `.mcp.json`, `AGENTS.md`", required: "allowed, and pointed out", codex: "allowed in silence",
		ours: "allowed, and the user is told", flow: pointedOut},
	{id: "M14", attempt: "mount something over `.git` in a user namespace of its own", required: "private at most", codex: "private", tries: []try{
		{call: "a mount in it", outside: depends},
	}},
	{id: "M15", attempt: "unmount or remount what protects", required: "denied", codex: "EINVAL, EPERM", tries: []try{
		{call: "umount what protects", says: "operation not permitted", outside: untried},
		{call: "remount", says: "operation not permitted", outside: untried},
	}},
	{id: "M16", attempt: "tamper with gantry's record of what was there before", required: "denied: out of the sandbox's reach", codex: "EROFS, EBUSY", tries: []try{
		{do: `ls "$ENGINE/locks" "$ENGINE/run" "$ENGINE/cache"`, says: noFile, outside: untried},
	}},
	{id: "M17", attempt: "odd names below protected ones: a newline, bytes that are no UTF-8, 4,096 bytes", required: "the same, and nothing breaks", codex: "", tries: []try{
		{do: `mkdir ".git/$(printf 'a\nb')"`, says: readOnly},
		{do: `mkdir ".git/$(printf 'a\377b')"`, says: readOnly},
		{do: `mkdir ".git/$(head -c 4096 /dev/zero | tr '\0' x)"`, says: "File name too long", outside: untried},
		{do: `mkdir -p "$(printf 'odd\n\377')/.codex"`, works: true},
	}, flow: func(t *testing.T, w *world) {
		if exists(filepath.Join(w.ws, "odd\n\xff", ".codex")) {
			t.Error("settings are there below an odd name")
		}
	}},
	{id: "M18", attempt: "a repository that does not look like one: the workspace itself, parts that are links, hooks and settings that lie with another", required: "what is executed is not there afterwards", codex: "",
		ours: "moved aside", tries: []try{
			{do: `mkdir objects refs hooks && echo ref: refs/heads/x > HEAD && echo evil > hooks/post-checkout && printf '[core]\n\tfsmonitor = evil\n' > config`, works: true},
			{do: `mkdir -p l/s/objects l/s/refs l/r/hooks && ln -s ../s/objects ../s/refs ../s/HEAD l/r && echo evil > l/r/hooks/post-checkout && printf '[core]\n\tfsmonitor = evil\n' > l/r/config`, works: true},
			{do: `mkdir -p two/sub two/x two/s/hooks && echo gitdir: ../x > two/sub/.git && echo ../s > two/x/commondir && echo evil > two/s/hooks/post-checkout && printf '[core]\n\tfsmonitor = evil\n' > two/s/config`, works: true},
		}, flow: func(t *testing.T, w *world) {
			for _, dir := range []string{".", "l/r", "two/s"} {
				if exists(filepath.Join(w.ws, dir, "hooks/post-checkout")) {
					t.Errorf("a hook is in %s", dir)
				}
				if b, err := os.ReadFile(filepath.Join(w.ws, dir, "config")); err != nil || strings.Contains(string(b), "evil") {
					t.Errorf("settings in %s: %q, %v", dir, b, err)
				}
			}
		}, tests: []string{"host/internal/launch/box TestExecutedFilesAreQuarantined"}},
	{id: "M19", attempt: "in folders that can't be listed, but whose files can be reached by name", required: "not there afterwards", codex: "", ours: "the folders are opened and looked through", tries: []try{
		{do: `mkdir -p shut/r/.git/hooks && echo evil > shut/r/.git/hooks/post-checkout && chmod 311 shut`, works: true},
		{do: `mkdir -p open/.git/hooks && echo evil > open/.git/hooks/post-checkout && chmod 311 open/.git/hooks`, works: true},
	}, flow: func(t *testing.T, w *world) {
		for _, p := range []string{"shut/r/.git/hooks/post-checkout", "open/.git/hooks/post-checkout"} {
			if exists(filepath.Join(w.ws, p)) {
				t.Errorf("%s is there", p)
			}
		}
	}, tests: []string{"host/internal/launch/box TestExecutedFilesAreQuarantined"}},
	{id: "M20", attempt: "settings of other version controls: `.hg/hgrc`, `.jj/repo/config.toml`", required: "not there afterwards", codex: "", ours: "moved aside", tries: []try{
		{do: `mkdir -p .hg other/.hg other/.jj/repo && echo evil | tee .hg/hgrc other/.hg/hgrc > other/.jj/repo/config.toml`, works: true},
	}, flow: func(t *testing.T, w *world) {
		for _, p := range []string{".hg/hgrc", "other/.hg/hgrc", "other/.jj/repo/config.toml"} {
			if exists(filepath.Join(w.ws, p)) {
				t.Errorf("%s is there", p)
			}
		}
	}, tests: []string{"host/internal/launch/box TestExecutedFilesAreQuarantined"}},
	{id: "M21", attempt: "work in the user's whole home, and write what shells, git or the desktop start with: `.bashrc`, `.profile`, `.gitconfig`, `.config/autostart`", required: "denied", codex: "",
		ours: "what is there is read-only, what is new is moved aside", flow: wholeHome, tests: []string{"host/internal/launch/box TestStartupFilesStay"}},
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// sub is another world, with boxes of its own.
func (w *world) sub(t *testing.T, name string) *world {
	t.Helper()
	s := *w
	s.top = filepath.Join(w.top, "more", name)
	mkdir(t, s.top)
	s.fill(t)
	return &s
}

// boxed runs a script in a sandbox that lets the workspace be written.
func (w *world) boxed(t *testing.T, dir, script string, env ...string) result {
	t.Helper()
	return w.gantry(t, env, "sandbox", "-C", dir, "-c", "sandbox.mode=workspace-write", "--", "/bin/sh", "-c", script)
}

func wholeHome(t *testing.T, w *world) {
	s := w.sub(t, "home")
	rc := filepath.Join(s.user, ".bashrc")
	if err := os.WriteFile(rc, []byte("as it was"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := s.wholeHome(t, `echo evil >> .bashrc; mv .bashrc b; echo evil > .profile; echo evil > .gitconfig; mkdir -p .config/autostart && echo evil > .config/autostart/x; echo x > notes`)
	if !strings.Contains(r.output, readOnly) || !strings.Contains(r.output, busy) || !exists(filepath.Join(s.user, "notes")) {
		t.Errorf("status %d, %q", r.status, r.output)
	}
	if b, err := os.ReadFile(rc); err != nil || string(b) != "as it was" {
		t.Errorf(".bashrc is %q, %v", b, err)
	}
	for _, p := range []string{".profile", ".gitconfig", ".config/autostart"} {
		if exists(filepath.Join(s.user, p)) {
			t.Errorf("%s is there", p)
		}
	}
}

func tmpdirElsewhere(t *testing.T, w *world) {
	s := w.sub(t, "tmpdir")
	for _, dir := range []string{s.out, "/"} {
		before := s.snapshot(t)
		r := s.boxed(t, s.ws, `echo x > "$OUT/x"; echo x > "$HOME/x"; echo "tmp is $TMPDIR"`, "TMPDIR="+dir)
		told := strings.Contains(r.output, "gantry-sandbox-") && r.status == 1 // it may not make a folder there
		if !told && (strings.Count(r.output, readOnly) != 2 || !strings.Contains(r.output, "tmp is /tmp\n")) {
			t.Errorf("TMPDIR=%s: status %d, %q", dir, r.status, r.output)
		}
		// What gantry made for itself is gone, but for the folder's time.
		after := s.snapshot(t)
		if strings.Count(after, "\n") != strings.Count(before, "\n") {
			t.Errorf("TMPDIR=%s left something behind:\n%s", dir, after)
		}
	}
}

func tmpdirRelative(t *testing.T, w *world) {
	s := w.sub(t, "relative")
	r := s.boxed(t, s.ws, `echo x > "$OUT/x"; echo x > /tmp/x && echo "tmp is $TMPDIR"`, "TMPDIR=sub")
	clean := r.status == 1 && strings.Contains(r.output, "TMPDIR") || strings.Contains(r.output, "tmp is /tmp") && strings.Contains(r.output, readOnly)
	if !clean || strings.Contains(r.output, "panic") {
		t.Errorf("status %d, %q", r.status, r.output)
	}
}

func linkedMetadata(t *testing.T, w *world) {
	s := w.sub(t, "linked")
	for _, to := range []string{"sub", s.out, "nowhere"} {
		link := filepath.Join(s.ws, ".codex")
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		if r := s.boxed(t, s.ws, "echo ran"); r.status == 0 || strings.Contains(r.output, "ran\n") || !strings.Contains(r.output, ".codex") || !strings.Contains(r.output, "symbolic link") {
			t.Errorf("to %s: status %d, %q", to, r.status, r.output)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
}

func missingMetadata(t *testing.T, w *world) {
	s := w.sub(t, "missing")
	for _, do := range []string{
		`mkdir .agents .codex .gantry .aws && echo evil | tee .agents/x .codex/x .gantry/gantry.hcl > .aws/x`,
		`ln -s "$OUT" .codex; ln -s sub .agents; ln -s nowhere .gantry; echo evil > .aws`,
		`mkdir -p .gantry && mv .gantry x && mkdir .gantry && echo evil > .gantry/gantry.hcl`,
	} {
		r := s.boxed(t, s.ws, do)
		if r.status != 0 {
			t.Errorf("%s: status %d, %q", do, r.status, r.output)
		}
		s.without(t, s.ws, ".agents", ".codex", ".gantry", ".aws")
	}
}

func renamedMetadata(t *testing.T, w *world) {
	s := w.sub(t, "renamed")
	s.boxed(t, s.ws, `mkdir -p prep/.agents prep/x/hooks && echo evil > prep/x/hooks/post-checkout && echo ref: refs/heads/x > prep/x/HEAD && mv -T prep/.agents .agents; mv -T prep/x sub/.git`)
	s.without(t, s.ws, ".agents", "sub/.git/hooks/post-checkout")
}

// without looks for what must not be there.
func (w *world) without(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if exists(filepath.Join(dir, name)) {
			t.Errorf("%s is there", name)
		}
	}
}

func belowTheRepository(t *testing.T, w *world) {
	s := w.sub(t, "below")
	sub := filepath.Join(s.ws, "sub")
	s.boxed(t, sub, `mkdir -p .git/hooks .git/objects .git/refs; echo evil > .git/hooks/post-checkout; echo ref: refs/heads/x > .git/HEAD; printf '[core]\n\tfsmonitor = evil\n' > .git/config`)
	s.without(t, sub, ".git/hooks/post-checkout")
	if b, err := os.ReadFile(filepath.Join(sub, ".git/config")); err != nil || strings.Contains(string(b), "evil") {
		t.Errorf("settings are %q, %v", b, err)
	}
}

func belowTheRepositoryAsARace(t *testing.T, w *world) {
	s := w.sub(t, "race")
	sub := filepath.Join(s.ws, "sub")
	for range 5 {
		s.boxed(t, sub, `(while :; do mkdir -p .git/hooks && echo evil > .git/hooks/x; mv -T .git g; done) >/dev/null 2>&1 & exit 0`)
		s.without(t, sub, ".git/hooks/x")
	}
}

func pointedOut(t *testing.T, w *world) {
	f := newFlow(t, w, "M13", "workspace-write", "never")
	f.Write("package.json", "{}")
	f.Write(".husky/pre-push", "true")
	f.call("c1", `echo evil > Makefile; mkdir .vscode && echo evil > .vscode/tasks.json; echo evil >> package.json; echo evil > .envrc; echo evil > .husky/pre-push; echo x > other`)
	f.call("c2", `echo more >> Makefile; echo evil > AGENTS.md`)
	f.prepare()
	res := f.OK(append([]string{"exec"}, append(f.args, "go")...)...)
	for _, name := range []string{"Makefile", ".vscode/tasks.json", "package.json", ".envrc", ".husky/pre-push", "AGENTS.md"} {
		if n := strings.Count(res.Stderr, filepath.Join(f.Dir, name)); n != 1 {
			t.Errorf("%s is pointed out %d times:\n%s", name, n, res.Stderr)
		}
	}
	if strings.Contains(res.Stderr, "/other") {
		t.Errorf("so is another file:\n%s", res.Stderr)
	}
}
