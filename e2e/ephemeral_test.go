package e2e_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// An ephemeral run leaves nothing behind, and nothing of the others' is taken away.
func TestEphemeral(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { user = "the first", since_user = 0 }
do = [{ call = "exec_command", args = { cmd = "touch started; while [ ! -e go ]; do sleep 0.01; done", login = false, yield_time_ms = 30000 } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	run := r.Start("exec", "the first")
	r.Until("the first one works", func() bool { return exists(r.Dir, "started") })
	thread := threads(t, r)[0].ID
	r.OK("exec", "--ephemeral", "beside")
	if all := threads(t, r); len(all) != 1 || all[0].ID != thread {
		t.Errorf("threads: %+v", all)
	}
	if left, err := filepath.Glob(filepath.Join(r.Home, "locks", "*.lock")); err != nil || len(left) != 1 {
		t.Errorf("locks: %v %v, want the one of the thread that runs", left, err)
	}
	watcher := r.Start("attach", thread)
	watcher.Sees("> the first")
	r.Write("go", "")
	if a, b := run.Wait(), watcher.Wait(); a.Code != 0 || b.Code != 0 {
		t.Errorf("exit %d and %d:\n%s%s", a.Code, b.Code, a.Stderr, b.Stderr)
	}
	r.NothingLeft()

	// A stored thread goes on from where it was, and stays as it is.
	res := r.OK("exec", "--json", "resume", thread, "--ephemeral", "only now")
	if got := lines(t, res.Stdout)[0].Thread; got != thread {
		t.Errorf("it went on with %s", got)
	}
	if texts := strings.Join(r.Last().Texts(llm.RoleUser), "|"); !strings.Contains(texts, "the first|") || !strings.HasSuffix(texts, "only now") {
		t.Errorf("the model reads %q", texts)
	}
	if all := threads(t, r); len(all) != 1 || all[0].Turns != 1 {
		t.Errorf("threads: %+v", all)
	}
}

// Where the home can't be written, what is stored can be looked at, and a run that stores nothing works.
func TestHomeThatCantBeWritten(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
times = -1
when = { since_user = 0 }
do = [{ call = "exec_command", args = { cmd = "echo x >> ran", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	r.OK("exec", "the first")
	id := threads(t, r)[0].ID
	// The log of the model's requests is in the home, too: it is kept elsewhere.
	log := filepath.Join(t.TempDir(), "log")
	in := func(where, command string) rig.Result {
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c",
			"mount --bind "+where+" "+where+" && mount -o remount,ro,bind "+where+" || exit 77; exec "+command)
		var out, err strings.Builder
		cmd.Dir, cmd.Stdout, cmd.Stderr = r.Dir, &out, &err
		cmd.Env = append(r.Env, "PATH="+r.Bin+":/usr/bin:/bin:/usr/sbin:/sbin", "REQUESTS="+log)
		runErr := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code == 77 || strings.Contains(err.String(), "unshare") {
			t.Skipf("no mounts here: %v %s", runErr, err.String())
		}
		return rig.Result{Stdout: out.String(), Stderr: err.String(), Code: cmd.ProcessState.ExitCode()}
	}
	for command, want := range map[string]string{
		"gantry threads list":            id,
		"gantry threads show " + id:      "the first",
		"gantry threads export " + id:    `"kind":"export.ended"`,
		"gantry threads list --json":     `"preview":"the first"`,
		"gantry threads show " + id[:20]: "> the first",
	} {
		if res := in(r.Home, command); res.Code != 0 || !strings.Contains(res.Stdout, want) {
			t.Errorf("%s: exit %d:\n%s%s", command, res.Code, res.Stdout, res.Stderr)
		}
	}
	const run = ` -c 'provider.scripted.log="/dev/null"' go`
	if res := in(r.Home, "gantry exec"+run); res.Code != 1 || !strings.Contains(res.Stderr, "read-only") || !strings.Contains(res.Stderr, "Next: ") {
		t.Errorf("exec: exit %d:\n%s", res.Code, res.Stderr)
	}
	if res := in(r.Home, "gantry exec --ephemeral"+run); res.Code != 0 || res.Stdout != "done\n" || r.Read("ran") != "x\nx\n" {
		t.Errorf("exec --ephemeral: exit %d, ran %q:\n%s", res.Code, r.Read("ran"), res.Stderr)
	}
	if res := in(r.Home, "gantry exec resume --last --ephemeral"+run); res.Code != 0 || res.Stdout != "done\n" {
		t.Errorf("resume --ephemeral: exit %d:\n%s", res.Code, res.Stderr)
	}
	// There is no home yet, and none can be made.
	above := t.TempDir()
	conf := filepath.Join(t.TempDir(), "gantry.hcl")
	r.Write(conf, "provider \"scripted\" {\n  source = \"builtin/scripted\"\n  script_text = \"[[step]]\\ndo = [{ text = \\\"made\\\" }]\\n\"\n}\n")
	if res := in(above, "gantry --home "+above+"/none exec --ephemeral --config "+conf+" go"); res.Code != 0 || res.Stdout != "made\n" {
		t.Errorf("without a home: exit %d:\n%s", res.Code, res.Stderr)
	}
}

// On a full disk, what is stored can be looked at, and what can't be done says why.
func TestHomeOnAFullDisk(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=4m,mode=700 tmpfs $H || exit 77; cp "$GANTRY_HOME"/gantry.hcl $H; export GANTRY_HOME=$H
		"$0" exec "the first" 2>/dev/null; cat /dev/zero >$H/fill 2>/dev/null; "$0" threads list; "$0" exec "the second"`,
		filepath.Join(r.Bin, "gantry"))
	cmd.Dir, cmd.Env = r.Dir, append(r.Env, "H="+home)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // its status is looked at
	if code := cmd.ProcessState.ExitCode(); code == 77 || strings.Contains(stderr.String(), "unshare") {
		t.Skipf("nothing can be mounted here: %s", stderr.String())
	}
	if out := stdout.String(); !strings.HasPrefix(out, "done\n") || !strings.Contains(out, "the first") {
		t.Errorf("stdout:\n%s\nstderr:\n%s", out, stderr.String())
	}
	if out := stderr.String(); !regexp.MustCompile(`(no space left on device|disk is full).*\n  Next: free some space`).MatchString(out) {
		t.Errorf("stderr:\n%s", out)
	}
}
