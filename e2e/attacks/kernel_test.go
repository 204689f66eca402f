package attacks_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const notPermitted = "operation not permitted"

// reads are the rows about what must not be read: what holds keys of the user, and what `deny_read` names, here `**/*.env`.
var reads = []row{
	{id: "D1", attempt: "read, list and open up what is denied", required: "denied", codex: "EACCES", tries: []try{
		{do: `cat "$HOME/.ssh/id"`, says: noAccess},
		{do: `ls "$HOME/.ssh" | grep .`, says: noAccess},
		{do: `chmod 755 "$HOME/.ssh" && cat "$HOME/.ssh/id"`, says: readOnly},
		{do: `stat "$HOME/.ssh/id"`, says: noAccess},
		{do: `cat secret.env`, says: noAccess},
		{do: `chmod 644 secret.env && cat secret.env`, says: readOnly},
		{do: `cat secret.env`, says: noAccess, box: "read-only"},
		{do: `cat secret.env`, says: noAccess, box: "network"},
	}},
	{id: "D2", attempt: "copy, move, remove or link it", required: "denied", codex: "EACCES, EBUSY, EXDEV", tries: []try{
		{do: `cp "$HOME/.ssh/id" taken`, says: noAccess},
		{do: `mv "$HOME/.ssh/id" taken`, says: noAccess},
		{do: `mv "$HOME/.ssh" taken`, says: noAccess},
		{do: `rm -rf "$HOME/.ssh" && [ ! -e "$HOME/.ssh" ]`, says: readOnly},
		{do: `ln "$HOME/.ssh/id" taken`, says: noAccess},
		{do: `ln "$HOME/.netrc" taken2 && grep SECRET taken2`, says: across},
		{do: `cp secret.env taken3`, says: noAccess},
		{do: `mv secret.env taken4 && cat taken4`, says: busy},
		{do: `rm -f secret.env && [ ! -e secret.env ]`, says: busy},
		{do: `ln secret.env taken5 && cat taken5`, says: across},
	}},
	{id: "D3", attempt: "a denied file that is made after the start", required: "denied, or written down", codex: "readable", escaped: true,
		ours: "not seen in folders that are hidden; patterns are looked up when a command starts, which the guide says", flow: madeLater, tests: []string{"e2e TestDeniedFilesStayDenied"}},
	{id: "D4", attempt: "another hard link of a denied file", required: "denied, or written down", codex: "readable", escaped: true,
		ours: "can't be made; one that was in the workspace before is not seen either", tries: []try{
			{do: `ln "$HOME/.netrc" hard-key && grep SECRET hard-key`, says: across},
			{do: `grep SECRET keylink`},
			{do: `grep SECRET renamed`, says: noAccess},
		}},
	{id: "D5", attempt: "another spelling of its name", required: "no way around it where both are one name", codex: "readable", escaped: true, ours: "patterns take upper and lower case for the same; what is hidden is hidden as a file, not as a name", tries: []try{
		{do: `cat sub/LOUD.ENV`, says: noAccess},
		{do: `cat "$HOME/.SSH/id"`, says: noFile, outside: untried},
		{do: `cat "$HOME/.ssh/../.ssh//id"`, says: noAccess},
		{do: `cat "/proc/self/root$HOME/.ssh/id"`, says: noAccess},
		{do: `cat "/proc/self/cwd/secret.env"`, says: noAccess},
	}},
	{id: "D6", attempt: "ask to run outside of the sandbox, be allowed to, and read what is denied", required: "still denied", codex: "EACCES, while writing outside is allowed",
		ours: "without an answer nothing runs outside; who allows it allows what the user may read, but for what `deny_read` names, and the keys of providers", flow: escalatedRead,
		tests: []string{"host/internal/launch/box TestDeniedReadsSurviveFullAccess", "e2e TestDeniedFilesStayDenied"}},
	{id: "D7", attempt: "`git show HEAD:secret.env`: out of the repository's objects", required: "written down as a limit", codex: "", ours: "allowed: what was committed can be read, as the guide says", tries: []try{
		{do: `cat .git/config`, works: true},
	}},
	{id: "D8", attempt: "names of denied paths in `/proc/self/mountinfo`", required: "the name may be known", codex: "visible", ours: "the name is seen, nothing of the content", tries: []try{
		{do: `grep -q "$HOME/.ssh" /proc/self/mountinfo`, works: true, outside: untried},
		{do: `grep SECRET /proc/self/mountinfo`, outside: untried},
	}},
	{id: "D9", attempt: "let gantry read what is denied: `AGENTS.md` as a link to it", required: "denied", codex: "", ours: "not used, and the user is told", flow: instructionsByLink,
		tests: []string{"host/internal/prompt/agentsfile TestRead", "host/internal/prompt/agentsfile TestLinksThatAreExchanged"}},
}

// kernel are the rows about other processes and the kernel.
var kernel = []row{
	{id: "P1", attempt: "see or signal processes of the machine", required: "denied", codex: "a PID namespace of its own, ESRCH", tries: []try{
		{call: "signal a process", says: "no such process"},
		{do: `[ $(ls /proc | grep -c '^[0-9]') -gt 12 ]`, outside: depends},
		{do: `ls /proc/$VICTIM/cmdline`, says: noFile},
	}},
	{id: "P2", attempt: "ptrace", required: "denied, with and without a network", codex: "EPERM; allowed with a network", escaped: true, tries: []try{
		{call: "ptrace", says: notPermitted}, {call: "ptrace", says: notPermitted, box: "network"}, {call: "ptrace", says: notPermitted, box: "proxy"},
	}},
	{id: "P3", attempt: "process_vm_readv and process_vm_writev", required: "denied, with and without a network", codex: "as P2", escaped: true, tries: []try{
		{call: "process_vm_readv", says: notPermitted}, {call: "process_vm_writev", says: notPermitted},
		{call: "process_vm_readv", says: notPermitted, box: "network"}, {call: "process_vm_writev", says: notPermitted, box: "network"},
	}},
	{id: "P4", attempt: "io_uring", required: "denied always", codex: "EPERM", tries: []try{
		{call: "io_uring_setup", says: notPermitted, outside: depends}, {call: "io_uring_enter", says: notPermitted, outside: depends}, {call: "io_uring_register", says: notPermitted, outside: depends},
		{call: "io_uring_setup", says: notPermitted, box: "network", outside: depends},
	}},
	{id: "P5", attempt: "a user namespace of its own, a sandbox in the sandbox", required: "private or denied", codex: "private; EPERM", ours: "denied", tries: []try{
		{do: `bwrap --ro-bind / / true`, outside: depends},
		{do: `bwrap --bind / / sh -c 'echo x > "$OUT/x"'`, outside: depends},
		{call: "a mount in it", outside: depends},
	}},
	{id: "P6", attempt: "mount, umount, chroot, fsopen, open_tree, open_tree_attr, move_mount, setns", required: "denied", codex: "EPERM", tries: []try{
		{call: "mount", says: notPermitted, outside: asRoot}, {call: "umount", says: notPermitted, outside: asRoot}, {call: "chroot", says: notPermitted, outside: depends},
		{call: "fsopen", says: notPermitted, outside: asRoot}, {call: "open_tree", says: notPermitted}, {call: "open_tree_attr", says: notPermitted, outside: depends}, {call: "move_mount", says: notPermitted, outside: asRoot}, {call: "setns", says: notPermitted},
		{call: "mount", says: notPermitted, box: "network", outside: untried}, {call: "setns", says: notPermitted, box: "network", outside: untried},
	}},
	{id: "P7", attempt: "bpf, userfaultfd, kexec, kernel modules, perf, files by handle", required: "denied", codex: "EPERM, ENOSYS", tries: []try{
		{call: "bpf", says: notPermitted, outside: depends}, {call: "userfaultfd", says: notPermitted, outside: depends}, {call: "kexec_load", says: notPermitted, outside: depends},
		{call: "init_module", says: notPermitted, outside: depends}, {call: "perf_event_open", says: notPermitted, outside: depends},
		{call: "open_by_handle_at", says: notPermitted, outside: asRoot}, {call: "bpf", says: notPermitted, box: "network", outside: depends},
	}},
	{id: "P8", attempt: "keys in the kernel's keyrings of whoever started gantry", required: "denied: a keyring of its own", codex: "allowed, `/proc/keys` lists the host's", escaped: true, tries: []try{
		{call: "add_key", says: notPermitted, outside: depends}, {call: "keyctl", says: notPermitted, outside: depends}, {call: "keyctl", says: notPermitted, box: "network", outside: depends},
		{do: `cat /proc/keys`, says: noAccess, outside: depends},
	}},
	{id: "P9", attempt: "take a descriptor out of another process: pidfd_open, pidfd_getfd", required: "denied", codex: "only within the PID namespace", tries: []try{
		{call: "a descriptor of others"},
	}},
	{id: "P10", attempt: "personality, `int 0x80`, x32 numbers", required: "denied, or the end of the process", codex: "personality allowed; killed; ENOSYS", tries: []try{
		{call: "personality", says: notPermitted}, {call: "personality", says: notPermitted, box: "network"},
		{call: "x32", says: "function not implemented", outside: untried},
		{do: secondNumbering, says: "", outside: depends},
	}},
	{id: "P11", attempt: "become a daemon, by setsid and a double fork, and outlive the command", required: "killed", codex: "killed", ours: "killed with the command", tries: []try{
		{do: `( setsid sh -c 'trap "" HUP TERM; exec 9>daemon; flock 9; echo > daemon-runs; sleep 600' & ) >/dev/null 2>&1; until [ -e daemon-runs ]; do :; done`, works: true, outside: untried},
	}, flow: func(t *testing.T, w *world) {
		f, err := os.OpenFile(filepath.Join(w.ws, "daemon"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Errorf("it holds its lock: %v", err)
		}
	}},
	{id: "P12", attempt: "abstract sockets, shared memory of System V, message queues of the machine", required: "denied", codex: "network and IPC namespaces of its own", tries: []try{
		{call: "an abstract socket"}, {call: "an abstract socket", box: "network"}, {call: "an abstract socket", box: "proxy"},
		{call: "shared memory", says: "no such file"}, {call: "shared memory", says: "no such file", box: "network"},
		{do: `ls -A /dev/mqueue | grep .`, outside: depends}, // its own, and empty,
	}},
	{id: "P13", attempt: "type into the terminal of whoever started it (TIOCSTI)", required: "denied", codex: "no controlling terminal", tries: []try{
		{call: "type into a terminal", says: notPermitted, outside: asRoot}, {call: "type into a terminal", says: notPermitted, box: "network", outside: asRoot},
		{do: `: < /dev/tty`, says: "No such device or address", outside: untried},
	}},
	{id: "P14", attempt: "fork without end, fill the disk, eat memory", required: "limits", codex: "no limits", ours: "bounded by `limits`; what runs is ended as a whole", flow: eatsMemory,
		tests: []string{"host/internal/launch TestKillTreeEndsForkBombs", "host/internal/launch TestLimits", "host/internal/launch TestLimitsEndTheTree"}},
	{id: "P15", attempt: "`/proc/1/environ` and `/proc/1/cmdline` of the sandbox's own process; memory of others", required: "no secrets in it", codex: "readable; the arguments show the whole profile",
		ours: "nothing secret is there; gantry itself and its providers can't be looked into by other processes of their user, with full access neither", tries: []try{
			{do: `tr '\0' '\n' < /proc/1/environ | grep -i secret`, outside: untried},
			{do: `tr '\0' '\n' < /proc/1/cmdline | grep bind`, outside: untried},
			{do: `cat /proc/[0-9]*/environ | tr '\0' '\n' | grep 'SECRET of the env'`, says: ""},
			{call: "look for the key of a provider", says: "not found", outside: untried},
			{call: "look for the key of a provider", says: "not found", box: "network", outside: untried},
			{call: "look for the key of a provider", says: "not found", box: "read-only", outside: untried},
		}, flow: keyInMemory},
}

// secondNumbering makes a system call by the numbers of 32 bits, which no filter for the others judges.
const secondNumbering = `python3 -c '
import ctypes, mmap, platform
assert platform.machine() == "x86_64"
m = mmap.mmap(-1, 4096, prot=7)
m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()'`

// madeLater puts a key into a hidden folder while a box is there.
func madeLater(t *testing.T, w *world) {
	s := w.sub(t, "later")
	cmd := exec.CommandContext(t.Context(), gantry(t), "sandbox", "-C", s.ws, "-c", "sandbox.mode=workspace-write", "--", "sh", "-c", `echo ready; read line; cat "$HOME/.ssh/new"`)
	cmd.Dir, cmd.Env = s.ws, s.env()
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
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := os.WriteFile(filepath.Join(s.user, ".ssh", "new"), []byte("SECRET made later"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil || strings.Contains(string(rest), "SECRET") {
		t.Errorf("%q, %v", rest, err)
	}
	in.Close()
	if err := cmd.Wait(); err == nil {
		t.Error("it could be read")
	}
}

// instructionsByLink has the host read a denied file for the model.
func instructionsByLink(t *testing.T, w *world) {
	f := newFlow(t, w, "D9", "workspace-write", "never")
	f.config("sandbox {\n  deny_read = [\"**/*.env\"]\n}\n")
	f.call("link", "ln -s secret.env AGENTS.md && echo made")
	f.call("next", "rm AGENTS.md; echo 'SAYS what is told' > AGENTS.md")
	f.call("last", "true")
	out := f.run(t)
	b, err := os.ReadFile(f.Log)
	if err != nil || !strings.Contains(out["link"], "made") || !strings.Contains(string(b), "SAYS what is told\\n") {
		t.Errorf("%v, %q", err, out)
	}
	if strings.Contains(string(b), "SECRET of the project") {
		t.Error("the model has READ it")
	}
}

// eatsMemory takes 256 MiB, and writes all of them, where 96 may be had, and where any may.
func eatsMemory(t *testing.T, w *world) {
	s := w.sub(t, "memory")
	const all = "eaten 268435456" // not to be found in the command itself, which the message about the limit names
	const eats = `python3 -c 'b = b"x" * (256 << 20); print("eaten", len(b))'`
	bounded := s.gantry(t, nil, "sandbox", "-C", s.ws, "-c", "sandbox.mode=workspace-write", "-c", "limits.memory=96MiB", "--", "sh", "-c", eats)
	if bounded.status == 0 || strings.Contains(bounded.output, all) {
		t.Errorf("status %d, %q", bounded.status, bounded.output)
	}
	if free := s.boxed(t, s.ws, eats); !strings.Contains(free.output, all) {
		t.Errorf("without a limit it can't be had either: status %d, %q", free.status, free.output)
	}
}
