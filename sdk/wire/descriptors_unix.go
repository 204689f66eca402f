//go:build unix

package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// SendDescriptors sends files in one message with a single zero byte. The caller keeps its own descriptors open.
func SendDescriptors(conn *net.UnixConn, files []*os.File) error {
	if err := checkDescriptorCount(len(files)); err != nil {
		return fmt.Errorf("send descriptors: %w", err)
	}
	fds := make([]int, 0, len(files))
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for _, f := range files {
		fd, err := duplicate(f)
		if err != nil {
			return fmt.Errorf("send descriptors: %s: %w", f.Name(), err)
		}
		fds = append(fds, fd)
	}
	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("send descriptors: %w", err)
	}
	return nil
}

// duplicate copies the descriptor without [os.File.Fd], which would make the file blocking.
func duplicate(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	dup, dupErr := -1, error(nil)
	if err := raw.Control(func(fd uintptr) { dup, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return -1, err
	}
	return dup, dupErr
}

// ReceiveDescriptors exchanges a one-time token for the n descriptors of a process that the host has started, in the order
// announced by Spawn. The caller must close them. They support read deadlines, and closing one interrupts a pending read.
func ReceiveDescriptors(ctx context.Context, socket, token string, n int) ([]*os.File, error) {
	if err := checkDescriptorCount(n); err != nil {
		return nil, fmt.Errorf("receive descriptors: %w", err)
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("receive descriptors: %w", err)
	}
	defer c.Close()
	conn := c.(*net.UnixConn)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if peerSupported {
		p, err := peerOf(conn)
		if err == nil {
			err = SameUser(p)
		}
		if err != nil {
			return nil, fmt.Errorf("receive descriptors: %w", err)
		}
	}
	if _, err := io.WriteString(conn, token+"\n"); err != nil {
		return nil, fmt.Errorf("receive descriptors: send token: %w", orCause(ctx, err))
	}
	files, err := readDescriptors(conn, n)
	if err != nil {
		return nil, fmt.Errorf("receive descriptors: %w", orCause(ctx, err))
	}
	return files, nil
}

// orCause returns the context's cause if ctx has ended, because err is then the resulting timeout.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func readDescriptors(conn *net.UnixConn, n int) (_ []*os.File, err error) {
	// There is room for more than n, so that excess descriptors are detected and closed instead of being discarded by the kernel.
	oob := make([]byte, unix.CmsgSpace(4*maxDescriptors))
	one := make([]byte, 1)
	read, oobn, flags, _, err := conn.ReadMsgUnix(one, oob)
	var fds []int
	defer func() {
		if err != nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
	}()
	if oobn > 0 {
		msgs, perr := unix.ParseSocketControlMessage(oob[:oobn])
		if perr != nil {
			return nil, fmt.Errorf("read message: %w", perr)
		}
		for _, m := range msgs {
			if got, perr := unix.ParseUnixRights(&m); perr == nil {
				fds = append(fds, got...)
			}
		}
	}
	switch {
	case err == nil && read == 0, errors.Is(err, io.EOF):
		return nil, errors.New("the host closed the socket: the token is invalid or expired")
	case err != nil:
		return nil, fmt.Errorf("read message: %w", err)
	case flags&unix.MSG_CTRUNC != 0:
		return nil, errors.New("the message is incomplete: it has too many descriptors, or this process can't open more")
	case len(fds) != n:
		return nil, fmt.Errorf("got %d descriptors instead of %d", len(fds), n)
	}
	files := make([]*os.File, n)
	for i, fd := range fds {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, fmt.Errorf("descriptor %d: %w", i, err)
		}
		files[i] = os.NewFile(uintptr(fd), "descriptor "+strconv.Itoa(i))
	}
	return files, nil
}
