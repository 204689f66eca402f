package stdio

import (
	"bufio"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// handoverTime limits one connection to the descriptors socket.
	handoverTime = 5 * time.Second
	// maxToken limits the line that a client sends.
	maxToken = 128
	// maxHandovers limits the connections that are served concurrently on one socket; further ones wait in the backlog.
	maxHandovers = 16
)

// Handover gives descriptors to plugins in exchange for one-time tokens.
type Handover struct {
	logger hclog.Logger
	mu     struct {
		sync.Mutex
		tokens map[string]*Streams
	}
}

// NewHandover returns a Handover without tokens.
func NewHandover(logger hclog.Logger) *Handover {
	h := &Handover{logger: logger}
	h.mu.tokens = make(map[string]*Streams)
	return h
}

// Token returns a new one-time token, for which the plugin receives the descriptors, in the order of [Streams.Names]. It invalidates an
// older token. It returns "" if there is nothing to receive: the descriptors of a process that is not a session are given away for
// good, and Forget closes them.
//
// The descriptors are the host's own ends. They don't block: a reader gets EAGAIN while there is no data. Go's os.NewFile expects
// that; in other languages a plugin can change it.
func (h *Handover) Token(s *Streams) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.handed || len(s.mu.files) == 0 {
		return ""
	}
	delete(h.mu.tokens, s.token)
	s.token = rand.Text()
	h.mu.tokens[s.token] = s
	return s.token
}

// Forget closes the descriptors, and invalidates their token.
func (h *Handover) Forget(s *Streams) {
	s.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.tokens, s.token)
}

// redeem returns the streams that a token is for, and invalidates the token, even if another plugin has sent it.
func (h *Handover) redeem(plugin, token string) (*Streams, error) {
	h.mu.Lock()
	s := h.mu.tokens[token]
	delete(h.mu.tokens, token)
	h.mu.Unlock()
	if s == nil {
		return nil, errors.New("unknown or used token")
	}
	if subtle.ConstantTimeCompare([]byte(s.cfg.Plugin), []byte(plugin)) != 1 {
		return nil, fmt.Errorf("the token belongs to plugin %q", s.cfg.Plugin)
	}
	return s, nil
}

// Serve gives descriptors to a plugin until ln is closed: the client sends a token and a newline, and receives one message of one byte
// with the descriptors as SCM_RIGHTS; then both close the connection. The response to a wrong token is to close it. Serve returns
// when all connections are closed.
func (h *Handover) Serve(plugin string, ln net.Listener) {
	slots := make(chan struct{}, maxHandovers)
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		slots <- struct{}{}
		conn, err := ln.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				h.logger.Error("the descriptors socket broke", "plugin", plugin, "error", err)
			}
			return
		}
		conns.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			if err := h.serve(plugin, conn); err != nil {
				h.logger.Warn("no descriptors were handed over", "plugin", plugin, "error", err)
			}
		})
	}
}

func (h *Handover) serve(plugin string, conn net.Conn) error {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("descriptors can't travel over %s", conn.RemoteAddr().Network())
	}
	socket.SetDeadline(time.Now().Add(handoverTime))
	line, err := bufio.NewReader(io.LimitReader(socket, maxToken)).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	s, err := h.redeem(plugin, strings.TrimSuffix(line, "\n"))
	if err != nil {
		return err
	}
	if s.cfg.Session {
		err = s.share(socket)
	} else {
		err = s.giveAway(socket)
	}
	if err != nil {
		return fmt.Errorf("process %s: %w", s.cfg.Process, err)
	}
	s.cfg.Taken()
	return nil
}

// share sends duplicates; the host keeps its own.
func (s *Streams) share(socket *net.UnixConn) error {
	s.mu.Lock()
	files, err := s.duplicatesLocked()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	defer closeAll(files)
	return sendFiles(socket, files)
}

// giveAway sends the host's ends, and closes them here once they have arrived, so that the process notices when the plugin closes a
// pipe.
func (s *Streams) giveAway(socket *net.UnixConn) error {
	s.mu.Lock()
	if s.mu.attached {
		s.mu.Unlock()
		return ErrAttached
	}
	files, err := s.duplicatesLocked()
	s.mu.handed = err == nil
	s.mu.Unlock()
	if err != nil {
		return err
	}
	defer closeAll(files)
	if err := sendFiles(socket, files); err != nil {
		s.mu.Lock()
		s.mu.handed = false
		s.mu.Unlock()
		return err
	}
	if s.cfg.Terminal != nil {
		return nil // kept for Resize; closing a terminal is not noticed anyway
	}
	s.Close()
	return nil
}
