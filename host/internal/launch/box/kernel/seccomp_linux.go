package kernel

import (
	"encoding/binary"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// deniedCalls are denied to every sandboxed process: access to other processes, keyrings, mounts, and parts of the kernel whose
// bugs have let processes escape.
var deniedCalls = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS,
	unix.SYS_FANOTIFY_INIT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_OPEN_TREE_ATTR,
}

// offlineCalls are also denied to a process without a network: they reach services through Unix sockets.
var offlineCalls = []uint32{
	unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_SENDMMSG,
}

// internetFamilies are the only socket families that a process with a network may use. The kernel has some forty more, and bugs in
// those have let processes escape.
var internetFamilies = []uint32{unix.AF_INET, unix.AF_INET6}

// sysChmod is chmod, which only amd64 has. Package unix names it for that architecture alone.
const sysChmod = 90

// The ioctl requests that push input into a terminal. Package unix does not name the second.
const tiocsti, tioclinux = unix.TIOCSTI, 0x541C

// The answers of a filter.
const (
	allow   = unix.SECCOMP_RET_ALLOW
	kill    = unix.SECCOMP_RET_KILL_PROCESS
	refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	missing = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
	ask     = unix.SECCOMP_RET_USER_NOTIF
)

// Offsets in struct seccomp_data.
const (
	atNumber = 0
	atArch   = 4
	atArg    = 16 // arguments have 64 bits, the lower half first
)

// architectures are the supported architectures with the kernel's constants for them.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// x32 is the bit of the system calls of amd64's third ABI.
const x32 = 0x40000000

// Filter returns the seccomp program for a sandboxed command, as bytes. proxied says that its network is a loopback interface of
// its own.
func Filter(network, proxied bool) []byte {
	none := deniedCalls
	if !network && !proxied {
		none = append(none[:len(none):len(none)], offlineCalls...)
	}
	p := assembler(common(none, false))
	// Socket pairs are allowed. Unconnected datagram sockets are not: they could send to any service's socket.
	local := connected
	if network {
		// A network means other machines. Services of this machine are reached through Unix sockets, and may do whatever they are
		// asked.
		p.call(unix.SYS_SOCKET, sockets(internetFamilies))
		p.call(unix.SYS_SOCKETPAIR, local)
		p.answer(allow)
		return p
	}
	if proxied {
		// Internet sockets lead to the sandbox's own loopback interface. Unix sockets lead out of it.
		p.call(unix.SYS_SOCKET, func(b *assembler) {
			b.load(atArg)
			b.allowEqual(internetFamilies...)
			b.answer(refuse)
		})
		p.call(unix.SYS_SOCKETPAIR, local)
		p.answer(allow)
		return p
	}
	p.call(unix.SYS_SOCKET, local)
	p.call(unix.SYS_SOCKETPAIR, local)
	p.call(unix.SYS_SENDTO, func(b *assembler) { // sendto without an address is send, which needs a connection
		for _, half := range []uint32{0, 4} {
			b.load(atArg + 4*8 + half)
			b.equal(0, 1, 0)
			b.answer(refuse)
		}
	})
	p.answer(allow)
	return p
}

// NarrowFilter returns the program for a process in a narrow sandbox, which has no files of the user's and only a loopback interface. It is
// the one that lets processes create user namespaces, change their root in these, and connect Unix sockets: no socket of another process has
// a path there, and abstract addresses belong to the network namespace.
func NarrowFilter() []byte {
	none := slices.DeleteFunc(slices.Clone(deniedCalls), func(nr uint32) bool { return nr == unix.SYS_CHROOT })
	p := assembler(common(none, true))
	// In a network namespace of its own a process may send raw packets, load tables of packet filters and create devices. The code for these has
	// had bugs, and parts of it are only loaded into the kernel when they are used.
	p.call(unix.SYS_SOCKET, func(b *assembler) {
		b.load(atArg + 8)
		b.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0)
		b.refuseEqual(unix.SOCK_RAW, unix.SOCK_PACKET)
		b.load(atArg)
		b.allowEqual(internetFamilies...)
		connected(b)
	})
	p.call(unix.SYS_SOCKETPAIR, connected)
	for _, nr := range []uint32{unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT} {
		p.call(nr, func(b *assembler) {
			b.load(atArg + 8)
			b.allowEqual(unix.SOL_SOCKET)
			b.load(atArg + 8*2)
			b.refuseEqual(packetTables...)
		})
	}
	p.answer(allow)
	return p
}

// packetTables are the options that read and change the tables of iptables and ip6tables, arptables and ebtables. Package unix does not name
// them.
var packetTables = []uint32{64, 65, 96, 97, 128, 129}

// deviceRequests are the ioctl requests that create bridges, VLANs and tunnels. Package unix does not name all of them.
var deviceRequests = []uint32{0x8940, 0x8941, 0x8982, 0x8983, 0x89a0, 0x89a1, 0x89f1, 0x89f2, 0x89f3}

// sockets allows the families, and netlink for asking about interfaces and routes.
func sockets(families []uint32) func(*assembler) {
	return func(b *assembler) {
		b.load(atArg)
		b.allowEqual(families...)
		b.equal(unix.AF_NETLINK, 1, 0)
		b.answer(refuse)
		b.load(atArg + 8*2)
		b.allowEqual(unix.NETLINK_ROUTE)
		b.answer(refuse)
	}
}

// common begins every filter: the architecture, calls that are always denied, and calls that are denied for some arguments. The
// code after it finds the number of the call loaded. users: processes may create user namespaces.
func common(none []uint32, users bool) []byte {
	var p assembler
	p.load(atArch)
	p.equal(architectures[runtime.GOARCH], 1, 0)
	p.answer(kill) // on another architecture the numbers mean other calls
	p.load(atNumber)
	if runtime.GOARCH == "amd64" {
		p.emit(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, x32, 0, 1)
		p.answer(missing)
	}
	for _, nr := range none {
		p.equal(nr, 0, 1)
		p.answer(refuse)
	}
	p.call(unix.SYS_IOCTL, func(b *assembler) {
		b.load(atArg + 8)
		b.refuseEqual(tiocsti, tioclinux)
		if users {
			b.refuseEqual(deviceRequests...)
		}
	})
	// A lease or a watch on a file that may only be read would block its writers.
	p.call(unix.SYS_FCNTL, func(b *assembler) {
		b.load(atArg + 8)
		b.refuseEqual(unix.F_SETLEASE, unix.F_NOTIFY)
	})
	// In a user namespace a process has all capabilities over its other new namespaces, and so reaches parts of the kernel that
	// only root is meant to reach. The flags of clone3 are in memory, which a filter can't read; libraries fall back to clone.
	namespace := func(b *assembler) {
		b.load(atArg)
		b.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, unix.CLONE_NEWUSER, 0, 0)
		b.refuseEqual(unix.CLONE_NEWUSER)
	}
	if !users {
		p.call(unix.SYS_CLONE, namespace)
		p.call(unix.SYS_UNSHARE, namespace)
	}
	p.equal(unix.SYS_CLONE3, 0, 1)
	p.answer(missing)
	// No setuid programs are created here. New files are checked afterwards as well.
	owner := func(arg uint32) func(*assembler) {
		return func(b *assembler) {
			b.load(atArg + 8*arg)
			b.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, unix.S_ISUID, 0, 0)
			b.refuseEqual(unix.S_ISUID)
		}
	}
	p.call(unix.SYS_FCHMOD, owner(1))
	p.call(unix.SYS_FCHMODAT, owner(2))
	p.call(unix.SYS_FCHMODAT2, owner(2))
	if runtime.GOARCH == "amd64" {
		p.call(sysChmod, owner(1))
	}
	p.call(unix.SYS_PERSONALITY, func(b *assembler) {
		const query, same, fixedAddresses = 0xffffffff, 0, 0x0040000
		b.load(atArg)
		b.allowEqual(query, same, fixedAddresses)
		b.answer(refuse)
	})
	return p
}

// connected allows Unix sockets that can't reach anything before they are connected.
func connected(b *assembler) {
	b.load(atArg)
	b.equal(unix.AF_UNIX, 1, 0)
	b.answer(refuse)
	b.load(atArg + 8)
	b.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0)
	b.refuseEqual(unix.SOCK_DGRAM, unix.SOCK_RAW)
}

// PluginFilter returns the program for a plugin's process. A confined one listens on a Unix socket on which the host connects. Its
// own connects are decided by the host one by one, since a filter can't see the address.
func PluginFilter(confined, network bool) []byte {
	p := assembler(common(deniedCalls, false))
	if !confined {
		p.call(unix.SYS_SOCKET, func(b *assembler) {
			b.load(atArg)
			b.allowEqual(unix.AF_UNIX)
			sockets(internetFamilies)(b)
		})
		p.answer(allow)
		return p
	}
	p.equal(unix.SYS_CONNECT, 0, 1)
	p.answer(ask)
	// fallocate takes any amount of disk at once, far beyond a plugin's quota before it can be measured. Programs fall back to
	// writing, as on a file system without support for it.
	p.equal(unix.SYS_FALLOCATE, 0, 1)
	p.answer(unknown)
	p.call(unix.SYS_SOCKET, func(b *assembler) {
		if network {
			var machines assembler
			sockets(internetFamilies)(&machines)
			b.load(atArg)
			b.equal(unix.AF_UNIX, uint8(len(machines)/8), 0)
			*b = append(*b, machines...)
		}
		connected(b)
	})
	p.call(unix.SYS_SOCKETPAIR, connected)
	p.answer(allow)
	return p
}

// assembler collects BPF instructions: a 16-bit code, two 8-bit jumps, a 32-bit operand.
type assembler []byte

func (p *assembler) emit(code uint16, k uint32, yes, no uint8) {
	*p = binary.NativeEndian.AppendUint16(*p, code)
	*p = append(*p, yes, no)
	*p = binary.NativeEndian.AppendUint32(*p, k)
}

func (p *assembler) load(offset uint32) { p.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }

func (p *assembler) answer(v uint32) { p.emit(unix.BPF_RET|unix.BPF_K, v, 0, 0) }

// equal skips yes instructions if the loaded value is k, otherwise no.
func (p *assembler) equal(k uint32, yes, no uint8) {
	p.emit(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, yes, no)
}

func (p *assembler) refuseEqual(values ...uint32) { p.answerEqual(refuse, values) }

func (p *assembler) allowEqual(values ...uint32) { p.answerEqual(allow, values) }

func (p *assembler) answerEqual(answer uint32, values []uint32) {
	for _, v := range values {
		p.equal(v, 0, 1)
		p.answer(answer)
	}
}

// call adds the body for one system call. What the body does not answer is allowed.
func (p *assembler) call(nr uint32, body func(*assembler)) {
	var b assembler
	body(&b)
	b.answer(allow)
	p.equal(nr, 0, uint8(len(b)/8))
	*p = append(*p, b...)
}
