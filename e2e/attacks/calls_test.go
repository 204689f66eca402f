package attacks_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/gantry-agent/gantry/sdk/tool"
	"golang.org/x/sys/unix"
)

// The test is its own helper where boxes see it: by this name it makes the calls that it is given, as ROW=CALL.
func TestMain(m *testing.M) {
	if os.Getenv(pluginEnv) != "" {
		tool.Main(attackPlugin())
	}
	if filepath.Base(os.Args[0]) == "attacker" || os.Args[0] == baitName {
		attack(os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

func attack(list []string) {
	for _, arg := range list {
		name, call, _ := strings.Cut(arg, "=")
		fmt.Printf("\n%s%s\n", begun, name)
		done := make(chan error)
		go func() { // its thread ends with it: what a call has made of it is nobody else's
			runtime.LockOSThread()
			done <- calls[call]()
		}()
		status := 0
		if err := <-done; err != nil {
			fmt.Println(err)
			status = 1
		}
		fmt.Printf("\n%s%d\n", ended, status)
	}
}

// calls are attempts that no script can make. They return nil when they have worked.
var calls = map[string]func() error{
	"signal a process":               func() error { return syscall.Kill(atoi("VICTIM"), 0) },
	"ptrace":                         traceChild,
	"process_vm_readv":               raw(unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid())),
	"process_vm_writev":              raw(unix.SYS_PROCESS_VM_WRITEV, uintptr(os.Getpid())),
	"io_uring_setup":                 raw(unix.SYS_IO_URING_SETUP, 1),
	"io_uring_enter":                 raw(unix.SYS_IO_URING_ENTER, ^uintptr(0)),
	"io_uring_register":              raw(unix.SYS_IO_URING_REGISTER, ^uintptr(0)),
	"a user namespace":               func() error { return userNamespace(false) },
	"a mount in it":                  func() error { return userNamespace(true) },
	"mount over it":                  func() error { return unix.Mount("none", protected(), "tmpfs", 0, "") },
	"mount":                          raw(unix.SYS_MOUNT),
	"umount":                         raw(unix.SYS_UMOUNT2),
	"chroot":                         raw(unix.SYS_CHROOT),
	"fsopen":                         raw(unix.SYS_FSOPEN),
	"open_tree":                      raw(unix.SYS_OPEN_TREE, ^uintptr(0), 0, ^uintptr(0)),
	"open_tree_attr":                 raw(unix.SYS_OPEN_TREE_ATTR, ^uintptr(0), 0, ^uintptr(0)),
	"move_mount":                     raw(unix.SYS_MOVE_MOUNT),
	"setns":                          raw(unix.SYS_SETNS, ^uintptr(0)),
	"open_by_handle_at":              raw(unix.SYS_OPEN_BY_HANDLE_AT),
	"remount":                        func() error { return unix.Mount("none", protected(), "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"umount what protects":           func() error { return unix.Unmount(protected(), unix.MNT_DETACH) },
	"a lease":                        onFile(unix.F_SETLEASE, unix.F_RDLCK),
	"a watch on a folder":            onFile(unix.F_NOTIFY, 4), // DN_CREATE
	"fanotify":                       raw(unix.SYS_FANOTIFY_INIT, unix.FAN_REPORT_FID),
	"unshare":                        raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
	"clone":                          raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_FS), // which no kernel takes together
	"clone3":                         raw(unix.SYS_CLONE3),
	"threads and processes":          startsAll,
	"other families":                 otherFamilies,
	"other netlinks":                 otherNetlinks,
	"routes":                         socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE),
	"bpf":                            raw(unix.SYS_BPF, ^uintptr(0)),
	"userfaultfd":                    raw(unix.SYS_USERFAULTFD, 1),
	"kexec_load":                     raw(unix.SYS_KEXEC_LOAD, 0, 1<<20),
	"init_module":                    raw(unix.SYS_INIT_MODULE),
	"perf_event_open":                raw(unix.SYS_PERF_EVENT_OPEN),
	"add_key":                        raw(unix.SYS_ADD_KEY),
	"keyctl":                         raw(unix.SYS_KEYCTL, 0, ^uintptr(2)), // KEYCTL_GET_KEYRING_ID of the session's
	"a descriptor of others":         foreignDescriptor,
	"personality":                    raw(unix.SYS_PERSONALITY, 0x0400000),
	"x32":                            raw(0x40000000 | 39),
	"type into a terminal":           typeInto,
	"an abstract socket":             dial("unix", func() string { return "@" + os.Getenv("ABSTRACT") }),
	"shared memory":                  func() error { _, err := unix.SysvShmGet(atoi("SEGMENT"), 0, 0); return err },
	"a message queue":                raw(unix.SYS_MQ_OPEN, ^uintptr(0)),
	"TCP":                            func() error { return connect(net.JoinHostPort("127.0.0.1", os.Getenv("PORT"))) },
	"TCP to another machine":         func() error { return connect("10.0.0.1:80") },
	"UDP":                            socket(unix.AF_INET, unix.SOCK_DGRAM, 0),
	"IPv6":                           socket(unix.AF_INET6, unix.SOCK_STREAM, 0),
	"raw packets":                    socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
	"packets":                        socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
	"netlink":                        socket(unix.AF_NETLINK, unix.SOCK_RAW, 0),
	"sockets of the hypervisor":      socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
	"ciphers of the kernel":          socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
	"local sockets":                  socket(unix.AF_UNIX, unix.SOCK_STREAM, 0),
	"a service":                      dial("unix", func() string { return filepath.Join(os.Getenv("SERVICE"), "stream") }),
	"sendto":                         send(func(fd int, to unix.Sockaddr) error { return unix.Sendto(fd, []byte("x"), 0, to) }),
	"sendmsg":                        send(func(fd int, to unix.Sockaddr) error { return unix.Sendmsg(fd, []byte("x"), nil, to, 0) }),
	"an abstract datagram":           dial("unixgram", func() string { return "@" + os.Getenv("ABSTRACT") + ".d" }),
	"tmux":                           dial("unix", func() string { return os.Getenv("TMUX_SOCKET") }),
	"an agent with keys":             dial("unix", func() string { return os.Getenv("AGENT_SOCKET") }),
	"the screen":                     dial("unix", func() string { return os.Getenv("X_SOCKET") }),
	"the screen, by its other name":  dial("unix", func() string { return os.Getenv("ABSTRACT_X") }),
	"a socket in the home":           dial("unix", func() string { return os.Getenv("HOME_SOCKET") }),
	"a socket in the project":        dial("unix", func() string { return os.Getenv("PROJECT_SOCKET") }),
	"a database":                     dial("unix", func() string { return os.Getenv("DATABASE_SOCKET") }),
	"a socket by a link":             linked,
	"a socket by a name of its own":  renamed,
	"a pair of datagrams":            func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0); return err },
	"a pair":                         pairWorks,
	"look for the key of a provider": findKey,
	"break into a provider":          breakIn,
	"be a provider":                  beProvider,
}

// linked connects to a socket by a link in a folder of the plugin's own.
func linked() error {
	link := filepath.Join(os.TempDir(), "link-"+strconv.Itoa(os.Getpid()))
	if err := os.Symlink(os.Getenv("TMUX_SOCKET"), link); err != nil {
		return err
	}
	defer os.Remove(link)
	return dial("unix", func() string { return link })()
}

// renamed gives the socket of a service the place of one of gantry's that the plugin may connect to.
func renamed() error {
	own := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "host.sock")
	if os.Getenv("PLUGIN_UNIX_SOCKET_DIR") == "" {
		own = filepath.Join(os.TempDir(), "host.sock-"+strconv.Itoa(os.Getpid()))
	}
	_ = os.Rename(own, own+".old")
	defer func() { _, _ = os.Remove(own), os.Rename(own+".old", own) }()
	if err := os.Symlink(os.Getenv("TMUX_SOCKET"), own); err != nil {
		return err
	}
	c, err := net.DialTimeout("unix", own, 10*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	peer, err := unix.GetsockoptUcred(descriptor(c), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && int(peer.Pid) != atoi("VICTIM") {
		return errors.New("connected to gantry all the same")
	}
	return err
}

func descriptor(c net.Conn) (fd int) {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err == nil {
		_ = raw.Control(func(n uintptr) { fd = int(n) })
	}
	return fd
}

// raw is a system call that counts as refused only where it is: other errors mean that it was let in.
func raw(nr uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		switch _, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno {
		case unix.EPERM, unix.ENOSYS, unix.EACCES:
			return errno
		default:
			return nil
		}
	}
}

// socket makes a socket of a family, and closes it.
func socket(family, kind, protocol int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			_ = unix.Close(fd)
		}
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) {
			return fmt.Errorf("this kernel has none: %w", err)
		}
		return err
	}
}

// onFile makes a call of fcntl about a folder that is not the sandbox's, or a file in it.
func onFile(command, arg uintptr) func() error {
	return func() error {
		path := os.Getenv("OUT")
		if command == unix.F_SETLEASE {
			path = filepath.Join(path, "linked")
		}
		fd, err := unix.Open(path, unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return raw(unix.SYS_FCNTL, uintptr(fd), command, arg)()
	}
}

// otherFamilies makes a socket of each family that is for no machine.
func otherFamilies() error {
	var got []int
	for family := unix.AF_UNIX; family < unix.AF_MAX+8; family++ {
		switch family {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK:
			continue
		}
		for kind := unix.SOCK_STREAM; kind <= unix.SOCK_PACKET; kind++ {
			fd, err := unix.Socket(family, kind, 0)
			if err == nil {
				unix.Close(fd)
			}
			if !errors.Is(err, unix.EPERM) { // the kernel was asked
				got = append(got, family)
				break
			}
		}
	}
	if len(got) == 0 {
		return unix.EPERM
	}
	fmt.Println("families", got)
	return nil
}

// otherNetlinks talks to other parts of the kernel than that for routes.
func otherNetlinks() error {
	for protocol := unix.NETLINK_ROUTE + 1; protocol < 32; protocol++ {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, protocol)
		if err == nil {
			unix.Close(fd)
		}
		if !errors.Is(err, unix.EPERM) {
			fmt.Println("protocol", protocol)
			return nil
		}
	}
	return unix.EPERM
}

// startsAll starts what programs start: threads, processes, and those of the C library.
func startsAll() error {
	out, err := exec.Command("python3", "-c", `
import os, subprocess, threading
t = threading.Thread(target=lambda: print("thread")); t.start(); t.join()
subprocess.run(["true"], check=True)
os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
if os.fork() == 0: os._exit(0)
os.wait(); print("all")`).CombinedOutput()
	if err == nil && !bytes.Contains(out, []byte("all")) {
		err = errors.New("it said " + string(out))
	}
	return err
}

// dial connects to a socket; where that alone reaches nobody it says something.
func dial(network string, address func() string) func() error {
	return func() error {
		c, err := net.DialTimeout(network, address(), 10*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if network == "unixgram" {
			_, err = c.Write([]byte("x"))
		}
		return err
	}
}

// send sends a datagram to a path from a socket that is not connected, by one of the system calls that can.
func send(by func(fd int, to unix.Sockaddr) error) func() error {
	return func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return by(fd, &unix.SockaddrUnix{Name: filepath.Join(os.Getenv("SERVICE"), "datagram")})
	}
}

func atoi(env string) int {
	n, err := strconv.Atoi(os.Getenv(env))
	if err != nil {
		panic(env + " is not set")
	}
	return n
}

// protected is something that is mounted to protect it.
func protected() string { return filepath.Join(os.Getenv("WS"), ".git") }

func connect(addr string) error {
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err == nil {
		c.Close()
	}
	return err
}

func traceChild() error {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	return unix.PtraceSeize(cmd.Process.Pid)
}

// userNamespace makes a user namespace in a child, and mounts something over what is protected in it.
func userNamespace(mount bool) error {
	cmd := exec.Command(os.Args[0], "x=mount over it")
	if !mount {
		cmd = exec.Command("true")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err == nil && mount && !bytes.Contains(out, []byte(ended+"0")) {
		return errors.New(strings.ReplaceAll(string(out), "@@", ""))
	}
	return err
}

// foreignDescriptor takes a descriptor out of another process.
func foreignDescriptor() error {
	fd, err := unix.PidfdOpen(atoi("VICTIM"), 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 0, 0)
	return err
}

// typeInto types a command into a terminal, as one does into the terminal of whoever started the program.
func typeInto() error {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return err
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer tty.Close()
	c := byte('x')
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&c))); errno != 0 {
		return errno
	}
	return nil
}

// pairWorks is what programs need of a pair of sockets.
func pairWorks() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	b := make([]byte, 1)
	if err := unix.Send(fds[0], []byte("x"), 0); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if _, _, err := unix.Recvfrom(fds[1], b, 0); err != nil {
		return fmt.Errorf("recv: %w", err)
	}
	if _, err := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return fmt.Errorf("getsockopt: %w", err)
	}
	return unix.Shutdown(fds[0], unix.SHUT_WR)
}

// powerful reports whether this is a root whom no container holds back, filtered whether a filter of system calls does.
func powerful() bool {
	const sysAdmin = 1 << 21
	caps, err := strconv.ParseUint(status("CapEff"), 16, 64)
	return err == nil && os.Geteuid() == 0 && caps&sysAdmin != 0 && !filtered()
}

func filtered() bool { return status("Seccomp") != "0" }

// status is what the kernel says of this process under a name.
func status(name string) string {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
