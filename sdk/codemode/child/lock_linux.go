package child

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

// spareBytes is the memory that the process may use besides the script's: its own heap, the stacks of its threads, and copies of
// what is exchanged with the owner.
const spareBytes = 512 << 20

// allowedCalls are what the runtime of Go needs to run threads, to wait, and to use pipes that are open.
var allowedCalls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MREMAP, unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_SCHED_YIELD,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_RESTART_SYSCALL,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETRUSAGE, unix.SYS_GETRANDOM, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// architectures are the supported architectures with the kernel's constants for them.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// lock limits the process and takes from it everything but computing and its open pipes: no file, no socket, no other process. It
// needs no privileges, so it also works in containers and outside gantry's sandbox. peak returns the largest amount of memory that the
// process has used so far, in bytes; 0: unknown. It can be asked once.
func lock(limits *frame.Limits) (peak func() int64, err error) {
	_, _ = time.Now().Zone() // reads the time zone
	size, err := addressSpace()
	if err != nil {
		return nil, err
	}
	status, err := os.Open("/proc/self/status") // before files are out of reach
	if err != nil {
		return nil, fmt.Errorf("measure the process: %w", err)
	}
	seconds := uint64((processorTime()+time.Duration(limits.CPUMillis)*time.Millisecond+frame.Grace)/time.Second) + 2
	for _, l := range []struct {
		name     string
		resource int
		limit    uint64
	}{
		{"memory", unix.RLIMIT_AS, size + uint64(limits.Memory) + spareBytes},
		{"processor time", unix.RLIMIT_CPU, seconds}, // in case that the process can't watch itself
		{"file size", unix.RLIMIT_FSIZE, 0},
		{"core size", unix.RLIMIT_CORE, 0},
		{"open files", unix.RLIMIT_NOFILE, 16}, // for waiting
	} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.limit, Max: l.limit}); err != nil {
			return nil, fmt.Errorf("limit the %s: %w", l.name, err)
		}
	}
	arch, ok := architectures[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("no system call filter exists for %s", runtime.GOARCH)
	}
	// The flag for all threads applies both to each of them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("give up new privileges: %w", err)
	}
	program := filter(arch)
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&f))); e != 0 {
		return nil, fmt.Errorf("install the system call filter: %w", e)
	}
	return func() int64 { return peakMemory(status) }, nil
}

// filter returns the seccomp program.
func filter(arch uint32) []unix.SockFilter {
	const (
		allow   = unix.SECCOMP_RET_ALLOW
		refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		missing = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		x32     = 0x40000000 // the bit of the calls of amd64's third ABI
	)
	// Offsets in struct seccomp_data; arguments have 64 bits, the lower half first.
	number, atArch, arg := uint32(0), uint32(4), func(i uint32) uint32 { return 16 + 8*i }
	var p []unix.SockFilter
	emit := func(code uint16, k uint32, yes, no uint8) {
		p = append(p, unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k})
	}
	load := func(at uint32) { emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at, 0, 0) }
	equal := func(k uint32, yes, no uint8) { emit(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, yes, no) }
	answer := func(k uint32) { emit(unix.BPF_RET|unix.BPF_K, k, 0, 0) }
	load(atArch)
	equal(arch, 1, 0)
	answer(unix.SECCOMP_RET_KILL_PROCESS) // on another architecture the numbers mean other calls
	load(number)
	emit(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, x32, 0, 1)
	answer(missing)
	for _, nr := range allowedCalls {
		equal(nr, 0, 1)
		answer(allow)
	}
	// Memory can't become code.
	for _, nr := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT} {
		equal(nr, 0, 4)
		load(arg(2))
		emit(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, unix.PROT_EXEC, 1, 0)
		answer(allow)
		answer(refuse)
	}
	// Threads are allowed, processes are not. The flags of clone3 are in memory, which a filter can't read.
	equal(unix.SYS_CLONE, 0, 4)
	load(arg(0))
	emit(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, unix.CLONE_THREAD, 0, 1)
	answer(allow)
	answer(refuse)
	equal(unix.SYS_CLONE3, 0, 1)
	answer(missing)
	// The runtime signals its own threads, and no other process.
	equal(unix.SYS_TGKILL, 0, 4)
	load(arg(0))
	equal(uint32(os.Getpid()), 0, 1)
	answer(allow)
	answer(refuse)
	answer(refuse)
	return p
}

// addressSpace returns the size of the process's address space in bytes.
func addressSpace() (uint64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("measure the process: %w", err)
	}
	first, _, _ := strings.Cut(string(b), " ")
	pages, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("measure the process: %w", err)
	}
	return pages * uint64(os.Getpagesize()), nil
}

// processorTime returns the processor time that the process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakMemory reads the largest amount of memory that the process has used from its entry in /proc. getrusage does not say it: its figure
// includes the owner's memory, from before the program was executed.
func peakMemory(status *os.File) int64 {
	b := make([]byte, 8<<10)
	n, err := status.Read(b)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b[:n]), "VmHWM:")
	kib, _ := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
	return kib << 10
}
