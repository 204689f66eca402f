package attacks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// starts are the rows about how a sandbox begins, and what of the environment is in it.
var starts = []row{
	{id: "E1", attempt: "a machine without user namespaces", required: "nothing runs", codex: "refused", ours: "nothing runs, and it says what is missing", flow: withoutNamespaces},
	{id: "E2", attempt: "a machine without bubblewrap", required: "nothing runs, or a helper of its own", codex: "one of its own, still enforced", ours: "nothing runs, and it says what to install", flow: withoutHelper},
	{id: "E3", attempt: "a false `bwrap` in the workspace or in `/tmp`, first in PATH", required: "ignored", codex: "ignored, unless it can do what is looked for", ours: "only folders of root's are looked into", flow: falseHelper},
	{id: "E4", attempt: "LD_PRELOAD, LD_LIBRARY_PATH, BASH_ENV, ENV that point into the workspace", required: "without effect on gantry; allowed inside", codex: "LD_* removed at the start", ours: "gantry's own programs load no libraries and run no shell", flow: preloaded},
	{id: "E5", attempt: "a PATH whose first folder is in the workspace, with programs that gantry itself would use", required: "gantry looks for its own by absolute paths", codex: "", ours: "nothing of it runs outside of the sandbox", flow: shadowed},
	{id: "E6", attempt: "read secrets in environment variables", required: "left out by default", codex: "visible", escaped: true, tries: []try{
		{do: `env | grep 'SECRET of the env'`}, {do: `env | grep PROVIDER_KEY`}, {do: `env | grep 'SECRET of the env'`, box: "network"},
	}, tests: []string{"e2e TestEnvironmentOfCommands"}},
	{id: "E7", attempt: "files that a login shell runs", required: "only inside", codex: "inside", ours: "inside", flow: loginFiles, tests: []string{"e2e TestLoginInTheSandbox"}},
	{id: "E8", attempt: "a folder for helpers below `/tmp`", required: "refused with a clear error", codex: "fails: execvp, not found", ours: "there is none: the helper comes as an open file", tries: []try{
		{do: `ls /tmp | grep .`, outside: untried},
	}, flow: func(t *testing.T, w *world) {
		s := w.sub(t, "helpers")
		if r := s.boxed(t, s.ws, "echo ran", "TMPDIR="+s.ws); r.status != 0 || !strings.Contains(r.output, "ran") {
			t.Errorf("status %d, %q", r.status, r.output)
		}
	}},
}

// within runs gantry's sandbox in another sandbox, which shows it another machine.
func (w *world) within(t *testing.T, options ...string) result {
	t.Helper()
	helper, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	argv := append([]string{helper, "--dev-bind", "/", "/"}, options...)
	return w.run(t, w.env(), append(argv, gantry(t), "sandbox", "-C", w.ws, "-c", "sandbox.mode=workspace-write", "--", "sh", "-c", `echo ran; echo x > "$OUT/x"`)...)
}

func withoutNamespaces(t *testing.T, w *world) {
	s := w.sub(t, "namespaces")
	// For an ordinary user the outer sandbox makes root's programs nobody's, which is refused before.
	if r := s.within(t, "--unshare-user", "--disable-userns"); r.status == 0 || strings.Contains(r.output, "ran\n") || !strings.Contains(r.output, "namespace") && !strings.Contains(r.output, "can't be enforced") {
		t.Errorf("status %d, %q", r.status, r.output)
	}
}

func withoutHelper(t *testing.T, w *world) {
	s := w.sub(t, "helper")
	helper, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	if r := s.within(t, "--ro-bind", "/dev/null", helper); r.status == 0 || strings.Contains(r.output, "ran\n") || !strings.Contains(r.output, "install bubblewrap") {
		t.Errorf("status %d, %q", r.status, r.output)
	}
}

// program puts a program into the world that leaves a trace outside.
func (w *world) program(t *testing.T, dir string, names ...string) {
	t.Helper()
	mkdir(t, dir)
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n: > \""+w.out+"/ran-"+name+"\"\nexit 0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// traces are what programs have left outside.
func (w *world) traces(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(w.out, "ran-*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func falseHelper(t *testing.T, w *world) {
	s := w.sub(t, "false")
	bin := filepath.Join(s.ws, "fake")
	s.program(t, bin, "bwrap")
	if r := s.boxed(t, s.ws, `echo x > "$OUT/x"`, "PATH="+bin+":"+os.Getenv("PATH")); r.status == 0 || !strings.Contains(r.output, readOnly) || len(s.traces(t)) > 0 {
		t.Errorf("status %d, %q, %q", r.status, r.output, s.traces(t))
	}
}

func preloaded(t *testing.T, w *world) {
	s := w.sub(t, "preloaded")
	rc := filepath.Join(s.ws, "rc")
	if err := os.WriteFile(rc, []byte(": > \"$OUT/ran-rc\"\n: > \"$WS/ran-inside\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := s.boxed(t, s.ws, `bash -c 'echo inside'`, "BASH_ENV="+rc, "ENV="+rc, "LD_PRELOAD="+s.ws+"/no.so", "LD_LIBRARY_PATH="+s.ws)
	if !strings.Contains(r.output, "inside\n") || len(s.traces(t)) > 0 || !exists(filepath.Join(s.ws, "ran-inside")) {
		t.Errorf("status %d, %q, %q", r.status, r.output, s.traces(t))
	}
}

func shadowed(t *testing.T, w *world) {
	f := newFlow(t, w, "shadowed", "workspace-write", "never")
	bin := filepath.Join(f.world.ws, "shadow")
	f.world.program(t, bin, "git", "rg", "bwrap", "gantry-launch", "sh", "bash", "env", "true", "id", "uname", "ssh", "node", "python3")
	f.environ = append(f.environ, "PATH="+bin+":"+os.Getenv("PATH"))
	f.call("c1", "/bin/echo done")
	f.patch("c2", "*** Begin Patch\n*** Add File: patched\n+x\n*** End Patch")
	out := f.run(t)
	if !strings.Contains(out["c2"], "Success") {
		t.Errorf("%q", out)
	}
	if got := f.world.traces(t); len(got) > 0 {
		t.Errorf("these ran outside: %q", got)
	}
}

func loginFiles(t *testing.T, w *world) {
	f := newFlow(t, w, "login", "workspace-write", "never")
	for _, name := range []string{".profile", ".bash_profile", ".bashrc"} {
		if err := os.WriteFile(filepath.Join(f.world.user, name), []byte(": > \"$OUT/ran-"+name+"\"\nPROFILE_RAN=yes\nexport PROFILE_RAN\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f.login("c1", `echo "profile: $PROFILE_RAN"`)
	out := f.run(t)
	if got := f.world.traces(t); len(got) > 0 || !strings.Contains(out["c1"], "profile: yes") {
		t.Errorf("%q; these ran outside: %q", out, got)
	}
}
