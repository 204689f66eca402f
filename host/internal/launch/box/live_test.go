//go:build linux

package box_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// evilSettings would make git execute a program.
const evilSettings = `printf '[core]\n\tfsmonitor = ./evil\n' > lib/.git/config`

// step lets a script that waits for a file continue, and waits until it has.
func (w *world) step(name string) {
	w.t.Helper()
	w.write(name, "")
}

// session starts a script that outlives its call if it is asked to.
func (w *world) session(script string) (*launch.Process, <-chan string) {
	w.t.Helper()
	spec := w.spec(`await() { while [ ! -e $1 ]; do sleep 0.01; done; }; ` + script)
	spec.Session, spec.Owner.Call = true, "session"
	p, err := w.launcher.Spawn(w.t.Context(), spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return p, output(w.t, p)
}

// endCall ends the call that has started the session.
func (w *world) endCall() {
	w.t.Helper()
	if err := w.launcher.EndCall(w.t.Context(), launch.Owner{Plugin: "shell", Thread: "thread", Call: "session"}); err != nil {
		w.t.Error(err)
	}
}

// outside runs a script without a sandbox.
func (w *world) outside(script string) (string, error) {
	w.t.Helper()
	spec := w.spec(script)
	spec.Grant, spec.Owner.Call = launch.Grant{Mode: launch.FullAccess, Network: true}, "outside"
	p, err := w.launcher.Spawn(w.t.Context(), spec)
	if err != nil {
		return "", err
	}
	out, _ := w.result(p)
	return out, nil
}

// until reads lines up to the wanted one.
func until(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	for got := range lines {
		if got == want {
			return
		}
	}
	t.Fatalf("it never said %q", want)
}

// await waits until n files were moved aside.
func (w *world) await(n int) []box.Moved {
	for len(w.moved()) < n {
		<-w.heard
	}
	return w.moved()
}

// Before anything runs outside of the sandbox, the creations of commands are moved aside, even of those that are still running.
func TestSettleQuarantinesSessionFiles(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	_, lines := w.session(`mkdir -p lib/.git lib/.codex; ` + evilSettings + `; echo made; await never`)
	until(t, lines, "made")
	if len(w.moved()) > 0 {
		t.Errorf("while the call lasts %+v was moved", w.moved())
	}
	if out, err := w.outside(`ls -A lib; cat lib/.git/config; true`); err != nil || strings.Contains(out, "fsmonitor") || !strings.Contains(out, ".codex.quarantined") {
		t.Errorf("%q, %v", out, err)
	}
	if m := w.moved(); len(m) != 2 {
		t.Errorf("moved %+v", m)
	}
}

// What a session creates after its call has ended is moved aside as it appears. A session that creates it again keeps anything from
// running outside, and is ended in the end.
func TestSessionFilesAreQuarantinedAtOnce(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	p, lines := w.session(`echo ready; await one; mkdir -p lib/.git; ` + evilSettings + `; await two; ` + evilSettings + `; await three; while :; do ` + evilSettings + `; done`)
	until(t, lines, "ready")
	w.endCall()
	w.step("one")
	w.await(1)
	if out, err := w.outside(`cat lib/.git/config`); err != nil || strings.Contains(out, "fsmonitor") {
		t.Errorf("after the first: %q, %v", out, err)
	}
	w.step("two")
	w.await(2)
	if _, err := w.outside(`true`); err == nil || !strings.Contains(err.Error(), "end that session first") {
		t.Errorf("after the second: %v", err)
	}
	w.mu.Lock()
	w.lenient = true // it says why it ends the session
	w.mu.Unlock()
	w.step("three")
	<-p.Gone()
	if out, err := w.outside(`cat lib/.git/config; true`); err != nil || strings.Contains(out, "fsmonitor") {
		t.Errorf("when it is gone: %q, %v", out, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failed) == 0 || !strings.Contains(fmt.Sprint(w.failed), "was ended") {
		t.Errorf("said %v", w.failed)
	}
}

// What appears while a session is running is compared with what was there before it, whichever command's end reveals it.
func TestOldestCommandIsBaseline(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	w.write("old/.git/config", "[core]\n\tfsmonitor = mine\n")
	_, lines := w.session(`mkdir -p lib/.git; ` + evilSettings + `; echo made; await never`)
	until(t, lines, "made")
	w.write("user/.git/hooks/x", "")
	if out, exit := w.sh(`cat old/.git/config`); exit.Code != 0 || !strings.Contains(out, "mine") {
		t.Errorf("%q, %+v", out, exit)
	}
	if b, err := os.ReadFile(filepath.Join(w.ws, "lib/.git/config")); err == nil && strings.Contains(string(b), "fsmonitor") {
		t.Errorf("it is still there: %s", b)
	}
	if b, err := os.ReadFile(filepath.Join(w.ws, "old/.git/config")); err != nil || !strings.Contains(string(b), "mine") {
		t.Errorf("the user's own is %q, %v", b, err)
	}
}

// What one command was allowed to create stays when an older command ends.
func TestOpenedFilesAreNotQuarantined(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	p, lines := w.session(`echo ready; await never`)
	until(t, lines, "ready")
	w.change = func(g *launch.Grant) { g.Opened = []string{filepath.Join(w.ws, "deep/.codex/x")} }
	if out, exit := w.sh(`mkdir -p deep/.codex; echo x > deep/.codex/x; mkdir -p other/.codex`); exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(w.ws, "deep/.codex/x")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(w.ws, "other/.codex")); err == nil {
		t.Error("what was not opened stays as well")
	}
}

// Even more folders than can be read one by one are searched.
func TestManyFoldersAreSearched(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it makes 60,000 folders")
	}
	w := prepared(t)
	w.make("ws/node_modules/lib/index.js")
	w.link("ws/node_modules/lib/index.js", "out/known")
	w.write("vendor/lib/.git/HEAD", "ref: refs/heads/main\n")
	w.write("vendor/lib/.git/hooks/pre-commit", "as it was")
	w.sh(`mkdir -p aaa && cd aaa && seq 1 60000 | xargs mkdir; mkdir -p 7/.git; printf '[core]\n\tfsmonitor = ./evil\n' > 7/.git/config`)
	if len(w.moved()) != 1 {
		t.Errorf("moved %+v", w.moved())
	}
	out, _ := w.sh(`echo evil > node_modules/lib/index.js; echo evil >> vendor/lib/.git/hooks/pre-commit; rm -rf aaa`)
	if strings.Count(out, "Read-only file system") != 2 {
		t.Errorf("%q", out)
	}
}

// What a killed gantry could not judge is judged by the next one before any command runs. What existed before stays.
func TestNextGantryQuarantines(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	w.write("old/.git/config", "[core]\n\tfsmonitor = mine\n")
	_, lines := w.session(`mkdir -p lib/.git app/.codex; ` + evilSettings + `; echo made; await never`)
	until(t, lines, "made")
	w.box.Killed()
	w.write("old/.git/config.new", "[core]\n\tfsmonitor = mine\n") // as a backup puts it back
	if err := os.Rename(filepath.Join(w.ws, "old/.git/config.new"), filepath.Join(w.ws, "old/.git/config")); err != nil {
		t.Fatal(err)
	}
	next := newWorldIn(t, w)
	spec := next.spec("true")
	if err := next.launcher.Watch("thread", spec.Grant); err != nil {
		t.Error(err)
	}
	if m := next.moved(); len(m) != 2 {
		t.Errorf("moved %+v", m)
	}
	if b, err := os.ReadFile(filepath.Join(w.ws, "old/.git/config")); err != nil || !strings.Contains(string(b), "mine") {
		t.Errorf("the user's own is %q, %v", b, err)
	}
	if err := w.launcher.Close(t.Context()); err != nil {
		t.Error(err)
	}
	next.box.Alone()
	next.sh("true") // after which another mark would be there
	if err := next.launcher.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(w.home, "locks/running/*")); err != nil || len(left) != 0 {
		t.Errorf("left is %q, %v", left, err)
	}
}

// What processes of a killed gantry create while they are being ended is judged by the next one, at once and after the last has
// ended.
func TestFilesCreatedAfterKill(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	_, lines := w.session(`echo ready; await one; mkdir -p lib/.git; ` + evilSettings + `; await two; mkdir -p app/.codex; echo x > app/.codex/x; echo made; await never`)
	until(t, lines, "ready")
	w.box.Killed()
	next := newWorldIn(t, w)
	if err := next.launcher.Watch("thread", next.spec("true").Grant); err != nil {
		t.Error(err)
	}
	w.step("one")
	next.await(1)
	if out, exit := next.sh(`cat lib/.git/config; touch two; while [ ! -e app/.codex/x ] && [ ! -e app/.codex.quarantined/x ]; do sleep 0.01; done; echo runs`); !strings.HasSuffix(out, "runs") || strings.Contains(out, "fsmonitor") {
		t.Errorf("%d, %q", exit.Code, out)
	}
	next.await(2)
	w.write("app/.git/config", "[core]\n")
	if err := w.launcher.Close(t.Context()); err != nil {
		t.Error(err)
	}
	next.box.Alone()
	w.write("app/.git/config.new", evilConfig)
	if err := os.Rename(filepath.Join(w.ws, "app/.git/config.new"), filepath.Join(w.ws, "app/.git/config")); err != nil {
		t.Fatal(err)
	}
	if out, exit := next.sh("cat app/.git/config"); exit.Code != 0 || out+"\n" != evilConfig {
		t.Errorf("when they are gone: %d, %q", exit.Code, out)
	}
	if m := next.moved(); len(m) != 2 {
		t.Errorf("moved %+v", m)
	}
}

// Processes that outlive the next gantry as well are judged by the one after it.
func TestFilesCreatedAfterRestart(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	_, lines := w.session(`echo ready; await one; mkdir -p app/.codex; echo x > app/.codex/x; echo made; await never`)
	until(t, lines, "ready")
	w.box.Killed()
	next := newWorldIn(t, w)
	if err := next.launcher.Watch("thread", next.spec("true").Grant); err != nil {
		t.Error(err)
	}
	if err := next.launcher.Close(t.Context()); err != nil {
		t.Error(err)
	}
	w.step("one")
	until(t, lines, "made")
	last := newWorldIn(t, w)
	if err := last.launcher.Watch("thread", last.spec("true").Grant); err != nil {
		t.Error(err)
	}
	if m := last.moved(); len(m) != 1 {
		t.Errorf("moved %+v", m)
	}
}

// What the user has created while no command was running stays.
func TestUserFilesBetweenCommandsStay(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	w.sh("true")
	w.write("new/.git/config", "[core]\n\tfsmonitor = mine\n")
	w.sh("true")
	next := newWorldIn(t, w)
	if err := next.launcher.Watch("thread", next.spec("true").Grant); err != nil {
		t.Error(err)
	}
	if out, exit := next.sh("cat new/.git/config"); exit.Code != 0 || !strings.Contains(out, "mine") || len(w.moved())+len(next.moved()) > 0 {
		t.Errorf("%q, %+v, %+v", out, exit, w.moved())
	}
}
