package attacks_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// races are the rows about things that happen at once.
var races = []row{
	{id: "R1", attempt: "replace a writable folder by a symbolic link, before it is bound into the sandbox", required: "what was judged is what is bound", codex: "bound by descriptors, by its source", ours: "refused: a writable folder may not be reached through a link that commands can make",
		flow: linkedRoot, tests: []string{"host/internal/launch/box TestAWritableRootThatWasExchanged"}},
	{id: "R2", attempt: "two commands at once, of which one removes what protects the other", required: "it stays as long as anybody needs it", codex: "a registry with marks", ours: "it stays, also for another gantry", flow: sharedStandIns,
		tests: []string{"host/internal/launch/box TestStandInsStayAsLongAsAnybodyNeedsThem"}},
	{id: "R3", attempt: "a refusal that is printed late", required: "still seen as one", codex: "missed after 150 ms", escaped: true, ours: "seen when the command ends", tests: []string{"e2e TestSandboxModesAndPolicies"}},
	{id: "R4", attempt: "kill gantry, or its helper, while a command runs", required: "the command dies, what stood in is cleared away with the next start", codex: "dies with its parent; not measured", ours: "as required", flow: killed,
		tests: []string{"host/internal/launch TestLauncherIsKilled", "host/internal/launch TestHostIsKilled"}},
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

// sharedStandIns has two gantries work in one folder.
func sharedStandIns(t *testing.T, w *world) {
	s := w.sub(t, "shared")
	_, first := s.held(t, "true")
	_, second := s.held(t, `mkdir .agents && echo evil > .agents/x; mkdir .codex; echo evil > .codex/x`)
	first()
	for _, name := range []string{".agents", ".codex"} {
		if !exists(filepath.Join(s.ws, name)) {
			t.Errorf("%s went with the first one", name)
		}
	}
	second()
	for _, name := range []string{".agents", ".codex", ".aws", ".gantry"} {
		if exists(filepath.Join(s.ws, name)) {
			t.Errorf("%s was left behind", name)
		}
	}
}

func killed(t *testing.T, w *world) {
	s := w.sub(t, "killed")
	cmd, release := s.held(t, "true")
	if !exists(filepath.Join(s.ws, ".agents")) {
		t.Fatal("nothing stands in for .agents")
	}
	if err := cmd.Process.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	release()
	if r := s.boxed(t, s.ws, "mkdir .agents"); !strings.Contains(r.output, "File exists") {
		t.Errorf("status %d, %q", r.status, r.output)
	}
	for _, name := range []string{".agents", ".codex", ".aws", ".gantry"} {
		if exists(filepath.Join(s.ws, name)) {
			t.Errorf("%s was left behind", name)
		}
	}
}
