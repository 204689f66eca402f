package attacks_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// races are the rows about things that happen at once.
var races = []row{
	{id: "R1", attempt: "replace a writable folder by a symbolic link, before it is bound into the sandbox", required: "what was judged is what is bound", codex: "bound by descriptors, by its source", ours: "refused: a writable folder may not be reached through a link that commands can make",
		flow: linkedRoot, tests: []string{"host/internal/launch/box TestReplacedWritableRoot"}},
	{id: "R2", attempt: "two gantries at once, of which one ends and the other makes what the first one would have judged", required: "not there afterwards", codex: "a registry with marks", ours: "each judges what was made while it ran", flow: shared},
	{id: "R3", attempt: "a refusal that is printed late", required: "still seen as one", codex: "missed after 150 ms", escaped: true, ours: "seen when the command ends", tests: []string{"e2e TestSandboxModesAndPolicies"}},
	{id: "R4", attempt: "kill gantry, or its helper, while a command runs", required: "the command dies, and nothing of gantry's is left in the folder", codex: "dies with its parent; not measured", ours: "as required", flow: killed,
		tests: []string{"host/internal/launch TestLauncherIsKilled", "host/internal/launch TestHostIsKilled"}},
	{id: "R5", attempt: "exchange a folder that leads to a mount with a symbolic link to the machine's files, again and again while the next sandbox is created, so that folders or files are created there", required: "denied", ours: "while mounts are made, the machine's files are read-only to their maker",
		tests: []string{"host/internal/launch/box TestMountsFollowNoLinksMeanwhile"}},
}

func linkedRoot(t *testing.T, w *world) {
	s := w.sub(t, "root")
	settings := []string{"-c", "sandbox.mode=workspace-write", "-c", `sandbox.writable_roots=["` + s.ws + `/build"]`}
	run := func(script string) result {
		return s.gantry(t, nil, append(append([]string{"sandbox", "-C", s.ws}, settings...), "--", "sh", "-c", script)...)
	}
	if r := run(`ln -s "$OUT" build`); r.status != 0 {
		t.Fatalf("status %d, %q", r.status, r.output)
	}
	if r := run(`echo x > build/x; echo x > "$OUT/x"`); r.status == 0 || exists(filepath.Join(s.out, "x")) {
		t.Errorf("status %d, %q", r.status, r.output)
	}
}

// held is a gantry whose command waits until its input ends.
func (w *world) held(t *testing.T, script string) (cmd *exec.Cmd, release func()) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), gantry(t), "sandbox", "-C", w.ws, "-c", "sandbox.mode=workspace-write", "--", "sh", "-c", "echo ready; read line; "+script)
	cmd.Dir, cmd.Env = w.ws, append(w.env(), "TMPDIR="+w.top) // what is killed leaves its folder for /tmp behind
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd, func() {
		in.Close()
		_ = cmd.Wait()
	}
}

// shared has two gantries work in one folder.
func shared(t *testing.T, w *world) {
	s := w.sub(t, "shared")
	_, first := s.held(t, "true")
	_, second := s.held(t, `mkdir .agents .codex && echo evil | tee .agents/x > .codex/x`)
	first()
	second()
	s.without(t, s.ws, ".agents", ".codex", ".aws", ".gantry")
}

func killed(t *testing.T, w *world) {
	s := w.sub(t, "killed")
	cmd, release := s.held(t, "true")
	before, err := os.ReadDir(s.ws)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	release()
	after, err := os.ReadDir(s.ws)
	if err != nil || len(after) != len(before) {
		t.Errorf("left are %v, %v", after, err)
	}
	s.without(t, s.ws, ".agents", ".codex", ".aws", ".gantry")
}
