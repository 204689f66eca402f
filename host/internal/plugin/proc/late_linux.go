package proc

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// hideLater hides files that appear later in the sandbox of the process, until its tree has ended. mounts is its mount namespace.
func (p *Process) hideLater(s *Sandbox, mounts *os.File) {
	var mu sync.Mutex // held while mounts is used
	closed := false
	leave := s.Late(func(covers []control.Cover) error {
		mu.Lock()
		defer mu.Unlock()
		if closed {
			return nil
		}
		return hideIn(s.Launcher, mounts, covers)
	})
	// Owned by the Process: it ends with its tree.
	go func() {
		<-p.gone
		leave()
		mu.Lock()
		defer mu.Unlock()
		closed = true
		_ = mounts.Close()
	}()
}

// hideIn has gantry-launch hide files in a mount namespace, and returns once they are hidden.
func hideIn(launcher string, mounts *os.File, covers []control.Cover) error {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("create a socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "hide"), os.NewFile(uintptr(fds[1]), "hide")
	defer ours.Close()
	defer theirs.Close()
	helper, err := os.StartProcess(launcher, []string{"gantry-launch"}, &os.ProcAttr{
		Env:   []string{control.StageEnv + "=" + control.StageHide, "GOGC=off"},
		Files: []*os.File{theirs, theirs, theirs, mounts},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start gantry-launch: %w", err)
	}
	defer func() { _, _ = helper.Wait() }()
	_ = theirs.Close()
	if _, err := ours.Write(control.Hide{Covers: covers}.Append(nil)); err != nil {
		return fmt.Errorf("send gantry-launch the files to hide: %w", err)
	}
	frame, err := (&control.Reader{Read: ours.Read}).Next()
	if err != nil {
		return fmt.Errorf("gantry-launch crashed: %w", err)
	}
	replied, err := frame.Replied()
	if err != nil {
		return fmt.Errorf("gantry-launch sent an invalid message: %w", err)
	}
	if replied.Errno != 0 {
		return syscall.Errno(replied.Errno)
	}
	return nil
}
