//go:build !family

package main

import (
	"runtime"
	"syscall"
	"unsafe"
)

// Traces are what can outlive a process in a sandbox: objects of the sandbox's namespaces, files in its own writable file systems, and
// attributes of another process, here of keep, that the next child would inherit. Everything else in a sandbox belongs to the machine, the
// workspace or the thread, and also outlives sandboxes.

// ipc are the kernel's lists of System V shared memory, semaphores and message queues.
var ipc = [...]string{"/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"}

// ownFolders are the writable folders that are created for a sandbox: shared memory, message queues, terminals.
var ownFolders = [...]string{"/dev/shm", "/dev/mqueue", "/dev/pts"}

// ownFiles are the files in /proc by which one process may change another.
var ownFiles = [...]string{"/proc/self/oom_score_adj", "/proc/self/coredump_filter"}

// traces returns all traces, encoded so that they can be compared.
func traces() []byte {
	var b []byte
	for _, path := range ipc {
		b = mark(b, readAll(path))
	}
	for _, path := range ownFolders {
		b = attributes(b, path)
		for _, name := range list(path) {
			b = attributes(mark(b, []byte(name)), path+"/"+name)
		}
	}
	for _, path := range ownFiles {
		b = mark(b, readAll(path))
	}
	return append(b, inherited()...)
}

// attributes appends the metadata of a file.
func attributes(b []byte, path string) []byte {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return mark(b, nil)
	}
	for _, v := range [...]uint64{uint64(st.Mode), uint64(st.Uid), uint64(st.Gid), uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec)} {
		b = mark(b, []byte(decimal(int(v))))
	}
	return b
}

// mark appends a value with its length, so that two lists are equal only if all values are.
func mark(b, value []byte) []byte {
	return append(append(append(b, decimal(len(value))...), ':'), value...)
}

// inherited returns what a child inherits from this thread and other processes may set: limits and scheduling.
func inherited() []byte {
	const limits, whoProcess, ioProcess = 16, 0, 1
	getattr := uintptr(315)
	if runtime.GOARCH == "arm64" {
		getattr = 275
	}
	var b []byte
	for resource := range uintptr(limits) {
		var now syscall.Rlimit
		syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, resource, 0, uintptr(unsafe.Pointer(&now)), 0, 0)
		b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&now)), unsafe.Sizeof(now))...)
	}
	nice, _, _ := syscall.RawSyscall(syscall.SYS_GETPRIORITY, whoProcess, 0, 0)
	io, _, _ := syscall.RawSyscall(syscall.SYS_IOPRIO_GET, ioProcess, 0, 0)
	var policy [64]byte
	syscall.RawSyscall6(getattr, 0, uintptr(unsafe.Pointer(&policy)), unsafe.Sizeof(policy), 0, 0, 0)
	var processors [1024]byte
	n, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(processors), uintptr(unsafe.Pointer(&processors)))
	if errno != 0 {
		n = 0
	}
	b = append(append(b, byte(nice), byte(io), byte(io>>8)), policy[:]...)
	return append(b, processors[:n]...)
}

func same(a, b []byte) bool { return string(a) == string(b) }
