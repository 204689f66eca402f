//go:build !family

package main

import (
	"runtime"
	"syscall"
	"unsafe"
)

// What outlives a process in a box: what the kernel keeps for the box's namespaces, files in file systems of the box's own that may be
// written, and what a process may change of another one's, here of the keeper's, which its next child would inherit. Everything else
// in a box is the machine's, the workspace's or the thread's, and outlives boxes as well.

// ipc are the kernel's lists of System V shared memory, semaphores and message queues.
var ipc = [...]string{"/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"}

// ownFolders are those that are made for a box and may be written: shared memory, message queues, terminals.
var ownFolders = [...]string{"/dev/shm", "/dev/mqueue", "/dev/pts"}

// ownFiles are what a process may write of another's.
var ownFiles = [...]string{"/proc/self/oom_score_adj", "/proc/self/coredump_filter"}

// traces are all of it, in bytes that can be compared.
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

// attributes appends what is known of a file without reading it.
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

// mark appends a value so that two lists of them are equal only when all values are.
func mark(b, value []byte) []byte {
	return append(append(append(b, decimal(len(value))...), ':'), value...)
}

// inherited is what a child takes over from this thread and others may set: limits, and how it is scheduled.
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
