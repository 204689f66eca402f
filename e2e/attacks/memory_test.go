package attacks_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// findKey looks for a provider's key in whatever other processes let be read: their environment, and their memory.
func findKey() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	looked, found := 0, false
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || e.Name() == os.Getenv("VICTIM") {
			continue // ourselves; and the test, which has made up the key
		}
		if b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")); err == nil {
			looked++
			if bytes.Contains(b, needle()) {
				found = told(pid, "environment")
			}
		}
		if inMemory(pid) {
			found = told(pid, "memory")
		}
	}
	if found {
		return nil
	}
	return fmt.Errorf("not found in %d processes", looked)
}

// needle is the key. It comes in two parts, so that nobody finds the one who looks.
func needle() []byte { return append([]byte(os.Getenv("NEEDLE")), os.Getenv("NEEDLES_END")...) }

// told says where the key was found.
func told(pid int, where string) bool {
	fmt.Printf("found in the %s of %d, %q\n", where, pid, commandOf(pid))
	return true
}

// commandOf is how a process was called.
func commandOf(pid int) string {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	name, _, _ := bytes.Cut(b, []byte{0})
	return string(name)
}

// area is a part of a process's memory.
type area struct{ from, to int64 }

// areas are what a process may write of its memory. nil: it does not say.
func areas(pid int) (all []area) {
	maps, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(maps)) {
		var a area
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &a.from, &a.to, &rights); err == nil && strings.HasPrefix(rights, "rw") && a.to-a.from <= 64<<20 {
			all = append(all, a)
		}
	}
	return all
}

// inMemory searches what a process may write of its memory.
func inMemory(pid int) bool {
	mem, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "mem"))
	if err != nil {
		return false
	}
	defer mem.Close()
	for _, a := range areas(pid) {
		b := make([]byte, a.to-a.from)
		if n, _ := mem.ReadAt(b, a.from); bytes.Contains(b[:n], needle()) {
			return true
		}
	}
	return false
}

// parentOf is the process that a process belongs to; 0: none is known.
func parentOf(pid int) int {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// holders are the processes that hold the key: the gantry above us and its providers, or what stands for one.
func holders() (all []int) {
	above := 0
	for pid := os.Getpid(); pid > 1 && above == 0; pid = parentOf(pid) {
		if filepath.Base(commandOf(pid)) == "gantry" {
			above = pid
			all = append(all, pid)
		}
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		name := commandOf(pid)
		if above != 0 && parentOf(pid) == above && strings.Contains(name, "gantry-provider") || name == baitName && os.Getenv("BAIT") == e.Name() {
			all = append(all, pid)
		}
	}
	return all
}

// breakIn tries to get into whoever holds the key in every way that a debugger has, and some that it has not.
func breakIn() error {
	for _, pid := range holders() {
		fmt.Printf("tried %q\n", commandOf(pid))
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		for _, name := range []string{"auxv", "maps", "ns/user", "ns/mnt", "ns/pid", "fd/1", "root", "cwd", "exe"} {
			f, err := os.Open(filepath.Join(dir, name))
			if err == nil {
				entered(pid, name)
				f.Close()
			}
		}
		if _, err := os.ReadDir(filepath.Join(dir, "fd")); err == nil {
			entered(pid, "list of descriptors")
		}
		if attach(pid) {
			entered(pid, "ptrace")
		}
		if readRemote(pid) {
			entered(pid, "process_vm_readv")
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			for n := range 32 {
				if got, err := unix.PidfdGetfd(fd, n, 0); err == nil {
					entered(pid, "descriptors")
					unix.Close(got)
					break
				}
			}
			unix.Close(fd)
		}
		for _, also := range [][]string{nil, {"--mount"}, {"--mount", "--pid"}} {
			args := append([]string{"--target", strconv.Itoa(pid), "--user", "--preserve-credentials"}, also...)
			if exec.Command("nsenter", append(args, "true")...).Run() == nil {
				entered(pid, strings.Join(append([]string{"namespaces"}, also...), " "))
			}
		}
	}
	return nil
}

// entered says what let somebody in.
func entered(pid int, how string) { fmt.Printf("entered by %s: %d, %q\n", how, pid, commandOf(pid)) }

// attach becomes the debugger of a process for a moment.
func attach(pid int) bool {
	runtime.LockOSThread() // which is its debugger
	defer runtime.UnlockOSThread()
	if unix.PtraceAttach(pid) != nil {
		return false
	}
	_, _ = unix.Wait4(pid, nil, unix.WALL, nil)
	_ = unix.PtraceDetach(pid)
	return true
}

// readRemote reads from where a Go program has its heap, or its stack.
func readRemote(pid int) bool {
	b := make([]byte, 1)
	for _, a := range append(areas(pid), area{from: 0xc000000000}, area{from: 0x4000000000}, area{from: 0x400000}) {
		n, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: uintptr(a.from), Len: 1}}, 0)
		if err == nil && n == 1 {
			return true
		}
	}
	return false
}

const baitName = "stands for a provider"

// beProvider is a process like a provider in a namespace that its user owns. From the first line that it is told on it is closed
// as a provider closes itself.
func beProvider() error {
	lines := bufio.NewReader(os.Stdin)
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	fmt.Println("closed")
	_, err := lines.ReadString('\n')
	return err
}

// keyInMemory looks for a provider's key from a command that is not confined at all. Root may read everything; an ordinary
// user's commands may not, and what is found in a process that only looks like a provider shows that each way works.
func keyInMemory(t *testing.T, w *world) {
	if os.Geteuid() == 0 {
		return
	}
	const half, otherHalf = "sk-in-memory-", "of-a-provider" // which no other test has anywhere
	look := []string{"x=look for the key of a provider", "y=break into a provider"}
	needle := []string{"NEEDLE=" + half, "NEEDLES_END=" + otherHalf}
	attacker := filepath.Join(w.programs, "attacker")

	bait := &exec.Cmd{Path: attacker, Args: []string{baitName, "x=be a provider"}, Env: []string{"KEY=" + half + otherHalf}}
	bait.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	in, err := bait.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	says, err := bait.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bait.Start(); err != nil {
		t.Logf("there are no namespaces here, so whether each way works is not shown: %v", err)
	} else {
		for round, ways := range [][]string{
			{"found in the environment", "found in the memory", "entered by auxv", "entered by fd/1", "entered by list of descriptors"},
			{"entered by maps", "entered by ns/user", "entered by root", "entered by ptrace", "entered by process_vm_readv", "entered by descriptors", "entered by namespaces", "entered by namespaces --mount --pid"},
		} {
			cmd := exec.CommandContext(t.Context(), attacker, look...)
			cmd.Env = append(append(w.env(), needle...), "BAIT="+strconv.Itoa(bait.Process.Pid))
			said, err := cmd.CombinedOutput()
			for _, way := range ways {
				if err != nil || !strings.Contains(string(said), way) {
					t.Errorf("%q does not work where it should, so that it proves nothing: %v\n%s", way, err, said)
				}
			}
			if _, err := io.WriteString(in, "go on\n"); err != nil {
				t.Fatal(err)
			}
			if round == 0 {
				for lines := bufio.NewScanner(says); lines.Scan() && lines.Text() != "closed"; {
				}
			}
		}
		_ = bait.Wait()
	}

	f := newFlow(t, w, "key", "full-access", "never")
	f.key, f.environ = half+otherHalf, append(f.environ, needle...)
	f.call("look", `"$ATTACKER" "`+strings.Join(look, `" "`)+`"`)
	out := f.run(t)["look"]
	keyIsSafe(t, out)
	for _, holder := range []string{"gantry", "gantry-provider-scripted"} {
		if !slices.ContainsFunc(slices.Collect(strings.Lines(out)), func(l string) bool {
			return strings.HasPrefix(l, "tried") && filepath.Base(strings.Trim(l, "\"\n")) == holder
		}) {
			t.Errorf("%s was not tried:\n%s", holder, out)
		}
	}
}

// keyIsSafe checks what was found of a key: nothing, and no way to where it is.
func keyIsSafe(t *testing.T, out string) {
	t.Helper()
	if _, ok := parse(out)["x"]; !ok {
		t.Errorf("the search did not run: %q", out)
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "found in") || strings.HasPrefix(line, "entered by") {
			t.Errorf("a command of an ordinary user found the key: %s", line)
		}
	}
}
