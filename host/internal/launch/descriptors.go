package launch

import (
	"bufio"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// handOverTime bounds one connection to the descriptors socket.
	handOverTime = 5 * time.Second
	// maxToken bounds the line that a client sends.
	maxToken = 128
	// maxHandOvers bounds the connections that are served side by side on one socket; the next waits in the backlog.
	maxHandOvers = 16
)

// Token returns a new one-time token, for which the descriptors socket of the owner's plugin gives out the descriptors,
// in the order of Descriptors. An older token of the process dies. It is empty when there is nothing to give: the
// descriptors of a process that is no session go to its plugin once and for all, and Release closes them.
//
// The descriptors are the host's own ends. They don't block: a reader gets EAGAIN where nothing is there yet. Go's
// os.NewFile wants them so; other languages switch it off where they prefer to wait.
func (p *Process) Token() string {
	token := rand.Text()
	p.mu.Lock()
	if p.mu.handed || len(p.mu.files) == 0 {
		p.mu.Unlock()
		return ""
	}
	old := p.mu.token
	p.mu.token = token
	p.mu.Unlock()
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	delete(p.l.mu.tokens, old)
	if p.l.mu.procs[p.id] != p {
		return ""
	}
	p.l.mu.tokens[token] = p
	return token
}

// redeem returns the process that a token stands for. The token is dead then, also when it came over the wrong socket.
func (l *Launcher) redeem(plugin, token string) (*Process, error) {
	l.mu.Lock()
	p := l.mu.tokens[token]
	delete(l.mu.tokens, token)
	l.mu.Unlock()
	if p == nil {
		return nil, errors.New("unknown or used token")
	}
	if subtle.ConstantTimeCompare([]byte(p.spec.Owner.Plugin), []byte(plugin)) != 1 {
		return nil, fmt.Errorf("the token belongs to plugin %q", p.spec.Owner.Plugin)
	}
	return p, nil
}

// ServeDescriptors gives out descriptors on a plugin's socket until ln is closed: the client sends a token and a newline,
// and receives one message of one byte with the descriptors as SCM_RIGHTS; then both close. A wrong token is answered by
// closing. It returns when every connection is done.
func (l *Launcher) ServeDescriptors(plugin string, ln net.Listener) {
	slots := make(chan struct{}, maxHandOvers)
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		slots <- struct{}{}
		conn, err := ln.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.cfg.Logger.Error("the descriptors socket broke", "plugin", plugin, "error", err)
			}
			return
		}
		conns.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			if err := l.handOver(plugin, conn); err != nil {
				l.cfg.Logger.Warn("no descriptors were handed over", "plugin", plugin, "error", err)
			}
		})
	}
}

func (l *Launcher) handOver(plugin string, conn net.Conn) error {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("descriptors can't travel over %s", conn.RemoteAddr().Network())
	}
	socket.SetDeadline(time.Now().Add(handOverTime))
	line, err := bufio.NewReader(io.LimitReader(socket, maxToken)).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	p, err := l.redeem(plugin, strings.TrimSuffix(line, "\n"))
	if err != nil {
		return err
	}
	if p.spec.Session {
		err = p.share(socket)
	} else {
		err = p.giveAway(socket)
	}
	if err == nil {
		l.note(p, func(at *place) { at.taken = true })
	}
	return err
}

// share sends duplicates; the host keeps its own.
func (p *Process) share(socket *net.UnixConn) error {
	p.mu.Lock()
	files, err := p.duplicatesLocked()
	p.mu.Unlock()
	if err != nil {
		return err
	}
	defer closeAll(files)
	return sendFiles(socket, files)
}

// giveAway sends the host's ends, and closes them here when they have arrived: then the other side of a pipe notices when
// the plugin closes it, as it should.
func (p *Process) giveAway(socket *net.UnixConn) error {
	p.mu.Lock()
	if p.mu.attached {
		p.mu.Unlock()
		return ErrAttached
	}
	files, err := p.duplicatesLocked()
	p.mu.handed = err == nil
	p.mu.Unlock()
	if err != nil {
		return err
	}
	defer closeAll(files)
	if err := sendFiles(socket, files); err != nil {
		p.mu.Lock()
		p.mu.handed = false
		p.mu.Unlock()
		return err
	}
	if p.spec.Terminal != nil {
		return nil // kept for Resize; a terminal has no end that is noticed
	}
	p.closeFiles()
	return nil
}

// duplicatesLocked duplicates the host's ends that are open, in the order of names.
func (p *Process) duplicatesLocked() ([]*os.File, error) {
	var files []*os.File
	for _, name := range p.names {
		f := p.mu.files[name]
		if f == nil {
			continue
		}
		d, err := duplicate(f)
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("duplicate %s of process %d: %w", name, p.pid, err)
		}
		files = append(files, d)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the descriptors of process %d are closed", p.pid)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
