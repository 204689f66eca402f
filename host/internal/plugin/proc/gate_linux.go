package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// gate makes the connections of a confined process. The kernel suspends each of its connect calls and notifies the gate, which reads the
// address once, decides, and connects to the address that it has read, whatever other threads of the process write there meanwhile.
type gate struct {
	listener *os.File
	dial     func(path string) (*os.File, error)
	network  bool
	logger   hclog.Logger
	refused  map[string]bool // addresses that were logged; used by run alone

	slots chan struct{} // limits the connections to other machines that are being made
	mu    struct {
		sync.Mutex
		connecting map[int]bool // sockets that are being connected
		ended      bool
	}
}

const (
	maxConnecting = 64  // connections of one process to other machines that are being made
	maxRefused    = 16  // addresses that are logged
	maxAddress    = 128 // bytes of the longest address that the kernel accepts
)

func newGate(listener *os.File, s *Sandbox, logger hclog.Logger) *gate {
	g := &gate{
		listener: listener, dial: s.Dial, network: s.Network, logger: logger,
		refused: map[string]bool{}, slots: make(chan struct{}, maxConnecting),
	}
	g.mu.connecting = map[int]bool{}
	return g
}

// notification, response and addFD are the kernel's struct seccomp_notif, seccomp_notif_resp and seccomp_notif_addfd.
type (
	notification struct {
		id         uint64
		pid, flags uint32
		nr         int32
		arch       uint32
		ip         uint64
		args       [6]uint64
	}
	response struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}
	addFD struct {
		id                    uint64
		flags, src, dst, mode uint32
	}
)

// run responds to notifications until there is no process left that could cause one, or close is called.
func (g *gate) run() {
	raw, err := g.listener.SyscallConn()
	if err != nil {
		return
	}
	for {
		var q notification
		var errno unix.Errno
		err := raw.Read(func(fd uintptr) bool {
			for {
				fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
				n, err := unix.Poll(fds, 0)
				switch {
				case err == unix.EINTR:
					continue
				case err != nil:
					errno = unix.EBADF
					return true
				case n == 0:
					return false
				case fds[0].Revents&unix.POLLIN == 0: // no process is left
					errno = unix.ESRCH
					return true
				}
				q = notification{}
				if errno = ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)); errno != unix.EINTR && errno != unix.ENOENT { // ENOENT: the caller has ended
					return true
				}
			}
		})
		if err != nil || errno != 0 {
			return
		}
		g.judge(&q)
	}
}

// close ends run, and the connections that are being made.
func (g *gate) close() {
	_ = g.listener.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.ended = true
	for fd := range g.mu.connecting {
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	}
}

// judge responds to a notification, or starts a goroutine that does.
func (g *gate) judge(q *notification) {
	address, err := g.address(q)
	if err != nil {
		g.logger.Warn("refused a plugin's connection whose address can't be read", "err", err)
		g.reply(q.id, unix.EPERM)
		return
	}
	family := binary.NativeEndian.Uint16(address)
	switch {
	case family == unix.AF_UNIX:
		path, _, _ := bytes.Cut(address[2:], []byte{0})
		var s *os.File
		err := error(unix.EPERM)
		if len(path) > 0 && g.dial != nil {
			s, err = g.dial(string(path))
		}
		if err == nil {
			err = g.handOver(q, s)
			_ = s.Close()
		}
		if errors.Is(err, unix.EPERM) {
			g.logRefused(address[2:])
		}
		g.reply(q.id, err)
	case g.network:
		g.slots <- struct{}{}
		// Owned by the gate: close ends the connection that the goroutine waits for.
		go func() {
			defer func() { <-g.slots }()
			g.reply(q.id, g.connect(q, address))
		}()
	default:
		g.reply(q.id, unix.EPERM)
	}
}

// logRefused logs an address that was refused, once.
func (g *gate) logRefused(address []byte) {
	name := string(bytes.TrimRight(address, "\x00"))
	if path, _, _ := bytes.Cut(address, []byte{0}); len(path) > 0 { // a path ends with a zero byte; the rest is arbitrary memory
		name = string(path)
	}
	if g.refused[name] || len(g.refused) >= maxRefused {
		return
	}
	g.refused[name] = true
	g.logger.Warn("refused a plugin's connection to a socket on this machine", "socket", strconv.Quote(name))
}

// address reads the address of a connect call.
func (g *gate) address(q *notification) ([]byte, error) {
	n := int(uint32(q.args[2]))
	if n < 2 || n > maxAddress {
		return make([]byte, 2), nil // AF_UNSPEC
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", q.pid))
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	b := make([]byte, n)
	if _, err := mem.ReadAt(b, int64(q.args[1])); err != nil && int64(q.args[1]) >= 0 {
		return make([]byte, 2), nil // the kernel could not have read it either
	}
	return b, g.valid(q.id) // if it isn't, another process with the same id was read
}

func (g *gate) valid(id uint64) error {
	return g.ioctl(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id))
}

// handOver replaces the socket that was to be connected with a connected one.
func (g *gate) handOver(q *notification, s *os.File) error {
	fd := int(int32(q.args[0]))
	flags, err := statusOf(q.pid, fd)
	if err != nil {
		return unix.EBADF
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var over error
	if err := raw.Control(func(src uintptr) {
		if over = unix.SetNonblock(int(src), flags&unix.O_NONBLOCK != 0); over == nil {
			over = g.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&addFD{
				id: q.id, flags: unix.SECCOMP_ADDFD_FLAG_SETFD, src: uint32(src), dst: uint32(fd), mode: uint32(flags & unix.O_CLOEXEC),
			}))
		}
	}); err != nil {
		return err
	}
	return over
}

// statusOf returns the flags of a descriptor of a process. It fails if the descriptor is not a socket, which must not become one.
func statusOf(pid uint32, fd int) (int, error) {
	if link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err != nil || !strings.HasPrefix(link, "socket:") {
		return 0, unix.EBADF
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseInt(strings.TrimSpace(v), 8, 64)
			return int(flags), err
		}
	}
	return 0, unix.EBADF
}

// connect connects the process's own socket to another machine. The address was not AF_UNIX when it was read, and a Unix socket accepts
// no address of another family.
func (g *gate) connect(q *notification, address []byte) error {
	pidfd, err := unix.PidfdOpen(leader(q.pid), 0)
	if err != nil {
		return unix.EPERM
	}
	fd, err := unix.PidfdGetfd(pidfd, int(int32(q.args[0])), 0)
	_ = unix.Close(pidfd)
	switch {
	case err == unix.EBADF:
		return err
	case err != nil:
		g.logger.Warn("refused a plugin's connection that the host can't make for it", "err", err,
			"next", "allow the host the system call pidfd_getfd; in containers the capability SYS_PTRACE allows it")
		return unix.EPERM
	}
	defer unix.Close(fd)
	if g.valid(q.id) != nil || !g.begin(fd) {
		return unix.EPERM
	}
	defer g.end(fd)
	if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address))); errno != 0 {
		return errno
	}
	return nil
}

func (g *gate) begin(fd int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.connecting[fd] = true
	return !g.mu.ended
}

func (g *gate) end(fd int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.mu.connecting, fd)
}

// leader returns the id of the process that a thread belongs to.
func leader(tid uint32) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Tgid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(v))
			return n
		}
	}
	return int(tid)
}

// reply resumes the process with the result of its connect call. It ignores errors: the process may have ended.
func (g *gate) reply(id uint64, err error) {
	a := response{id: id}
	if err != nil {
		errno, ok := errors.AsType[unix.Errno](err)
		if !ok {
			errno = unix.ECONNREFUSED
		}
		a.errno = -int32(errno)
	}
	_ = g.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a))
}

func (g *gate) ioctl(request uint, arg unsafe.Pointer) error {
	raw, err := g.listener.SyscallConn()
	if err != nil {
		return err
	}
	var errno unix.Errno
	if err := raw.Control(func(fd uintptr) { errno = ioctl(fd, request, arg) }); err != nil {
		return err
	}
	if errno != 0 {
		return errno
	}
	return nil
}

func ioctl(fd uintptr, request uint, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uintptr(request), uintptr(arg))
	return errno
}

// listen reads everything that a plugin's stage of gantry-launch sends, and extracts the listener of its gate.
func listen(from *os.File) (said []byte, listener *os.File, err error) {
	raw, err := from.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	b, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	for {
		var n, oobn int
		var rerr error
		if err := raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, rerr = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
			return rerr != unix.EAGAIN
		}); err != nil {
			return said, listener, err
		}
		if rerr == unix.EINTR {
			continue
		}
		if rerr != nil {
			return said, listener, rerr
		}
		got := b[:n]
		if fd, ok := received(oob[:oobn]); ok {
			if listener == nil && n > 0 && got[0] == control.GateByte && unix.SetNonblock(fd, true) == nil {
				listener, got = os.NewFile(uintptr(fd), "gate"), got[1:]
			} else {
				_ = unix.Close(fd)
			}
		}
		said = append(said, got...)
		if n == 0 {
			return said, listener, nil
		}
		if len(said) > maxMessage {
			return said, listener, io.ErrShortBuffer
		}
	}
}

// maxMessage limits what a stage may send.
const maxMessage = 64 << 10

// received returns the descriptor that came with a message, if it is exactly one.
func received(oob []byte) (int, bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, false
	}
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil && len(fds) == 1 {
			return fds[0], true
		}
	}
	return 0, false
}
