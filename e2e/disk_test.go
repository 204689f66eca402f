package e2e_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"golang.org/x/sys/unix"
)

// capDisk makes every file of a process that grows beyond this many bytes fail to grow, as a full disk would; 0: no more.
func capDisk(t *testing.T, pid int, bytes uint64) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = bytes
	if bytes == 0 {
		limit.Cur = limit.Max
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
}

const full = `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo first >> ran; touch started; while [ ! -e go ]; do sleep 0.01; done", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "echo second >> ran", login = false } }]
[[step]]
chunk = 1
chunk_delay_ms = 100
do = [{ text = "so be it, then" }]
[[step]]
times = -1
do = [{ text = "on we go" }]
`

// The disk is full in the middle of a turn: the user reads so once, what has an effect is not started, and the answer comes.
// With room again before the end, nothing is lost.
func TestDiskFullForAWhile(t *testing.T) {
	t.Parallel()
	r := rig.New(t, full)
	run := r.Start("exec", "--events", "go")
	r.Until("the first command runs", func() bool { return exists(r.Dir, "started") })
	capDisk(t, run.Cmd.Process.Pid, 1)
	r.Write("go", "")
	run.Sees("the store can't save events")
	capDisk(t, run.Cmd.Process.Pid, 0)
	res := run.Wait()
	if res.Code != 0 {
		t.Fatalf("exit %d:\n%s\n%s", res.Code, res.Stdout, res.Stderr)
	}
	if n := strings.Count(res.Stdout, "the store can't save events"); n != 1 {
		t.Errorf("the user reads of it %d times", n)
	}
	if out := r.Last().Outputs()["c2"]; !strings.Contains(out, "was not started") || r.Read("ran") != "first\n" {
		t.Errorf("the model reads %q; ran: %q", out, r.Read("ran"))
	}
	printed := rig.Events(t, res.Stdout)
	rig.Gapless(t, printed, 1)
	stored := rig.Events(t, r.OK("threads", "show", "--events", printed[0].Thread).Stdout)
	if last := rig.Gapless(t, stored, 1); last < printed[len(printed)-1].Seq {
		t.Errorf("%d events are stored, %d were printed", last, printed[len(printed)-1].Seq)
	}
	r.NothingLeft()
}

// Without room to the end, the user learns that the end of the thread was not kept, and the thread goes on from what was.
func TestDiskFullToTheEnd(t *testing.T) {
	t.Parallel()
	r := rig.New(t, full)
	run := r.Start("exec", "go")
	r.Until("the first command runs", func() bool { return exists(r.Dir, "started") })
	capDisk(t, run.Cmd.Process.Pid, 1)
	r.Write("go", "")
	res := run.Wait()
	if res.Code != 1 || !strings.Contains(res.Stderr, "events were not written") || !strings.Contains(res.Stdout, "so be it, then") {
		t.Errorf("exit %d:\n%s\n%s", res.Code, res.Stdout, res.Stderr)
	}
	if n := strings.Count(res.Stderr, "the store can't save events"); n != 1 {
		t.Errorf("the user reads of it %d times:\n%s", n, res.Stderr)
	}
	if strings.Contains(res.Stderr, "store is degraded") {
		t.Errorf("the log repeats what the user was told:\n%s", res.Stderr)
	}
	r.OK("resume", "--last", "go on")
	if out := r.Last().Outputs()["c1"]; !strings.Contains(out, "outcome unknown") {
		t.Errorf("the model reads %q of the call whose end was not kept", out)
	}
	r.NothingLeft()
}
