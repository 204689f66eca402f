package attacks_test

import (
	"bytes"
	"debug/elf"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// breakOut makes system calls in the process of a script, as code would that has taken over the engine. The process does not go on.
func breakOut(t *testing.T, pid int, program string) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, data := f.Section(".text"), f.Section(".noptrbss")
	code, err := text.Data()
	at := bytes.Index(code, []byte{0x0f, 0x05}) // the instruction that makes a system call
	if err != nil || at < 0 || data == nil {
		t.Fatalf("%s: %v", program, err)
	}
	runtime.LockOSThread() // which traces
	defer runtime.UnlockOSThread()
	if err := unix.PtraceAttach(pid); err != nil {
		t.Fatal(err)
	}
	stopped := func() bool {
		var ws unix.WaitStatus
		_, err := unix.Wait4(pid, &ws, unix.WALL, nil)
		return err == nil && ws.Stopped()
	}
	defer func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		for stopped() { // its parent learns of its end after its tracer
		}
	}()
	if !stopped() {
		t.Fatal("the process did not stop")
	}
	put := func(s string) uint64 {
		if _, err := unix.PtracePokeData(pid, uintptr(data.Addr), append([]byte(s), 0, 0, 0, 0, 0, 0, 0, 0)); err != nil {
			t.Fatal(err)
		}
		return data.Addr
	}
	cwd := ^uint64(99) // AT_FDCWD
	parent := uint64(os.Getpid())
	for _, c := range []struct {
		name string
		nr   uint64
		args []uint64
		want syscall.Errno // 0: it works
	}{
		{"getpid", unix.SYS_GETPID, nil, 0}, // so that the others are refused, and not this test's way to make them
		{"open", unix.SYS_OPENAT, []uint64{cwd, put("/etc/passwd")}, unix.EPERM},
		{"open, by its old name", unix.SYS_OPEN, []uint64{data.Addr}, unix.EPERM},
		{"a folder", unix.SYS_MKDIRAT, []uint64{cwd, data.Addr, 0o700}, unix.EPERM},
		{"a local socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, unix.EPERM},
		{"a network", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM}, unix.EPERM},
		{"fork", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, unix.EPERM},
		{"clone3", unix.SYS_CLONE3, []uint64{data.Addr, 88}, unix.ENOSYS},
		{"exec", unix.SYS_EXECVE, []uint64{data.Addr}, unix.EPERM},
		{"a signal to another process", unix.SYS_KILL, []uint64{parent, 0}, unix.EPERM},
		{"a signal to a thread of another process", unix.SYS_TGKILL, []uint64{parent, parent, 0}, unix.EPERM},
		{"ptrace", unix.SYS_PTRACE, []uint64{unix.PTRACE_ATTACH, 1<<31 - 1}, unix.EPERM},
		{"memory of another process", unix.SYS_PROCESS_VM_READV, []uint64{parent, data.Addr, 1, data.Addr, 1}, unix.EPERM},
		{"code in memory", unix.SYS_MMAP, []uint64{0, 4096, unix.PROT_READ | unix.PROT_EXEC, unix.MAP_ANON | unix.MAP_PRIVATE}, unix.EPERM},
		{"io_uring", unix.SYS_IO_URING_SETUP, []uint64{1, data.Addr}, unix.EPERM},
		{"a descriptor of another process", unix.SYS_PIDFD_OPEN, []uint64{parent}, unix.EPERM},
		{"other rights", unix.SYS_SETUID, []uint64{0}, unix.EPERM},
		{"another filter", unix.SYS_SECCOMP, []uint64{unix.SECCOMP_SET_MODE_FILTER, 0, data.Addr}, unix.EPERM},
		{"other limits", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_AS, data.Addr}, unix.EPERM},
	} {
		var was, now unix.PtraceRegs
		if err := unix.PtraceGetRegs(pid, &was); err != nil {
			t.Fatal(err)
		}
		now = was
		now.Rip, now.Rax, now.Orig_rax = text.Addr+uint64(at), c.nr, ^uint64(0)
		args := [6]uint64{}
		copy(args[:], c.args)
		now.Rdi, now.Rsi, now.Rdx, now.R10, now.R8, now.R9 = args[0], args[1], args[2], args[3], args[4], args[5]
		if err := unix.PtraceSetRegs(pid, &now); err != nil {
			t.Fatal(err)
		}
		if err := unix.PtraceSingleStep(pid); err != nil {
			t.Fatal(err)
		}
		if !stopped() {
			t.Fatalf("%s ended the process", c.name)
		}
		if err := unix.PtraceGetRegs(pid, &now); err != nil {
			t.Fatal(err)
		}
		switch got := int64(now.Rax); {
		case c.want == 0 && got != int64(pid):
			t.Fatalf("no system call is made: %d", got)
		case c.want != 0 && got != -int64(c.want):
			t.Errorf("%s WORKED or failed for another reason: %d, want %v", c.name, got, c.want)
		}
	}
}
