package attacks_test

import (
	"strings"
	"testing"
)

// reused are the rows about a sandbox that serves one command after another: what one leaves for the next, or does to whatever starts it.
var reused = []row{
	{id: "B1", attempt: "leave a process, a daemon or a child of one's parent for the next command", required: "denied", ours: "the sandbox ends with the command, and all in it",
		flow: leavesProcesses, tests: []string{"host/internal/launch/box TestLeftoversInReusedSandbox"}},
	{id: "B2", attempt: "leave files in `/dev/shm` or `/dev` for the next command", required: "denied", ours: "the next command gets another sandbox; `/dev` is read-only",
		flow: leavesFiles, tests: []string{"host/internal/launch/box TestLeftoversInReusedSandbox"}},
	{id: "B3", attempt: "leave memory, semaphores or queues of System V, or POSIX message queues", required: "denied", ours: "the next command gets another sandbox",
		flow: leavesQueues, tests: []string{"host/internal/launch/box TestLeftoversInReusedSandbox"}},
	{id: "B4", attempt: "leave variables, a folder, a mask, limits, priorities, open files or a terminal's settings", required: "denied", ours: "each command starts from its own order",
		flow: leavesSettings, tests: []string{"host/internal/launch/box TestLeftoversInReusedSandbox"}},
	{id: "B5", attempt: "set limits, priorities or processors of the process that starts the next command", required: "denied", ours: "the next command gets another sandbox",
		tests: []string{"host/internal/launch/box TestLeftoversInReusedSandbox"}},
	{id: "B6", attempt: "read the memory, variables, descriptors or folders of the process that starts commands, trace it", required: "denied", ours: "the kernel lets nobody look into it, Landlock no command",
		tests: []string{"host/internal/launch/box TestAttacksOnKeeper", "host/internal/launch/box TestKeeperCannotBeInspected"}},
	{id: "B7", attempt: "end, stop or disturb it with signals", required: "denied", ours: "no signal of the sandbox's own reaches its first process",
		tests: []string{"host/internal/launch/box TestSignalsToKeeper"}},
	{id: "B8", attempt: "get the sandbox of another thread or plugin, or one of a wider grant: network, proxy, a root, an opened file", required: "denied", ours: "such a command gets another sandbox",
		tests: []string{"host/internal/launch/box TestPreparedSandboxBelongsToAThread", "host/internal/launch/box TestPreparedSandboxBelongsToAGrant"}},
	{id: "B9", attempt: "replace the workspace, a repository, keys or what is denied between two commands", required: "denied", ours: "the next command gets another sandbox",
		tests: []string{"host/internal/launch/box TestChangedFilesNeedANewSandbox"}},
	{id: "B10", attempt: "leave a repository with hooks in a sandbox that is kept", required: "denied", ours: "it is moved aside before the next command starts",
		tests: []string{"host/internal/launch/box TestQuarantineInReusedSandbox"}},
	{id: "B11", attempt: "run on after an interrupt, or after the launcher was killed, in a sandbox that was kept", required: "denied", ours: "the kernel ends everything in it",
		tests: []string{"host/internal/launch/box TestEndInReusedSandbox", "host/internal/launch/box TestReusedSandboxEndsWithItsParents"}},
	{id: "B12", attempt: "keep the next command from making terminals (`chmod 000 /dev/pts/ptmx`), or set what holds for the whole namespace (`/proc/self/projid_map`)", required: "denied", ours: "the next command gets another sandbox; to root `/proc` is read-only",
		tests: []string{"host/internal/launch/box TestLeftoversInReusedSandbox"}},
}

// next has gantry run two commands of one turn, and returns what the second says.
func next(t *testing.T, w *world, name, first, second string) string {
	t.Helper()
	f := newFlow(t, w, name, "workspace-write", "never")
	f.call("first", first)
	f.call("second", second)
	return f.run(t)["second"]
}

func leavesProcesses(t *testing.T, w *world) {
	for name, first := range map[string]string{
		"background": `sleep 997 > /dev/null 2>&1 &`,
		"daemon":     `setsid sh -c 'setsid sleep 997 > /dev/null 2>&1 & exit' > /dev/null 2>&1`,
		"deaf":       `(trap "" TERM HUP INT; exec sleep 997) > /dev/null 2>&1 &`,
	} {
		if out := next(t, w, "leaves-"+name, first, `cat /proc/[0-9]*/comm | grep sleep || echo alone`); !strings.Contains(out, "alone") {
			t.Errorf("%s: %q", name, out)
		}
	}
}

func leavesFiles(t *testing.T, w *world) {
	out := next(t, w, "leaves-files", `echo LEFT > /dev/shm/x; chmod 700 /dev/shm; echo LEFT > /dev/x`, `cat /dev/shm/x /dev/x; stat -c %a /dev/shm`)
	if strings.Contains(out, "LEFT") || !strings.Contains(out, "1777") {
		t.Errorf("%q", out)
	}
}

func leavesQueues(t *testing.T, w *world) {
	out := next(t, w, "leaves-queues", `ipcmk -M 4096 -Q -S 1; : > /dev/mqueue/x`, `cat /proc/sysvipc/shm /proc/sysvipc/msg /proc/sysvipc/sem | wc -l; ls -A /dev/mqueue; echo looked`)
	if !strings.Contains(out, "3\nlooked") {
		t.Errorf("%q", out)
	}
}

func leavesSettings(t *testing.T, w *world) {
	out := next(t, w, "leaves-settings", `export LEFT=x; cd /; umask 0; ulimit -f 1; echo 700 > /proc/self/oom_score_adj; renice -n 19 -p $$; exec 9< /`,
		`echo "[$LEFT]$(umask) $(ulimit -f) $(cat /proc/self/oom_score_adj)"; [ "$(nice)" != 19 ] && [ ! -e /proc/self/fd/9 ] && [ "$(pwd)" != / ] && echo clean`)
	if !strings.Contains(out, "[]0022 unlimited 0\nclean") {
		t.Errorf("%q", out)
	}
}
