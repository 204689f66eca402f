package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// terminal is the client at the other end of stdin and stdout.
type terminal struct {
	*running
	in  *io.PipeWriter
	out *bufio.Reader
}

func startStdio(t *testing.T, cfg Config, handle Handler) *terminal {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	t.Cleanup(func() { // as the end of the process does
		_ = toServer.Close()
		_ = fromServer.Close()
	})
	cfg.Address, cfg.Stdin, cfg.Stdout = Address{Kind: Stdio}, in, out
	return &terminal{start(t, cfg, handle), toServer, bufio.NewReader(fromServer)}
}

func (c *terminal) echoes(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, text+"\n"); err != nil {
		c.t.Fatal(err)
	}
	if line, err := c.out.ReadString('\n'); err != nil || line != text+"\n" {
		c.t.Errorf("%.80q, %v, want %.80q", line, err, text)
	}
}

func TestStdio(t *testing.T) {
	t.Parallel()
	peers := make(chan Peer, 1)
	c := startStdio(t, Config{}, func(ctx context.Context, s rpc.Stream, p Peer) {
		peers <- p
		echo(ctx, s, p)
	})
	if c.URL() != "stdio://" {
		t.Error(c.URL())
	}
	c.echoes("hello")
	c.echoes(strings.Repeat("x", 1<<20))
	if p := await(t, peers, "the client"); p != (Peer{Kind: Stdio}) {
		t.Errorf("%+v", p)
	}
	_ = c.in.Close()
	c.ends(nil)
}

// The end of stdin ends the server, while a turn is running and while it drains too. What was answered is still written.
func TestEndOfStdin(t *testing.T) {
	t.Parallel()
	for _, drain := range []bool{false, true} {
		turn := newTurn() // which does not end
		c := startStdio(t, Config{Idle: turn.idle}, func(ctx context.Context, s rpc.Stream, _ Peer) {
			for {
				if _, err := s.Read(); err != nil {
					if err != io.EOF {
						t.Errorf("%v, want the end of stdin", err)
					}
					_ = send(s, []byte("the last answer"))
					return
				}
			}
		})
		if drain {
			c.signals <- syscall.SIGTERM
			await(t, turn.began, "the wait for turns")
		}
		if _, err := io.WriteString(c.in, "a\nb"); err != nil { // the last line is not complete
			t.Fatal(err)
		}
		_ = c.in.Close()
		if line, err := c.out.ReadString('\n'); err != nil || line != "the last answer\n" {
			t.Errorf("%q, %v", line, err)
		}
		c.ends(nil)
	}
}

// Stdin stays open: the server does not wait for its end.
func TestDrainStdio(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		turn := newTurn()
		c := startStdio(t, Config{Idle: turn.idle}, echo)
		c.echoes("serving")
		c.signals <- sig
		await(t, turn.began, "the wait for turns")
		c.echoes("draining")
		close(turn.end)
		c.ends(nil)

		turn = newTurn()
		c = startStdio(t, Config{Idle: turn.idle}, echo)
		c.signals <- sig
		await(t, turn.began, "the wait for turns")
		c.signals <- sig
		c.ends(ErrForced)
	}
}

// A client that does not read cannot keep the server from ending.
func TestStdioClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	wrote := make(chan error, 1)
	c := startStdio(t, Config{Grace: 1}, func(_ context.Context, s rpc.Stream, _ Peer) {
		var err error
		for err == nil {
			err = send(s, []byte(strings.Repeat("x", 1<<20)))
		}
		wrote <- err
	})
	if _, err := c.out.ReadByte(); err != nil { // the rest of the message is on its way
		t.Fatal(err)
	}
	c.signals <- syscall.SIGTERM
	c.ends(nil)
	if err := await(t, wrote, "the end of the write"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write: %v", err)
	}
}

// A client that has closed its end of stdout ends the writes.
func TestStdoutFails(t *testing.T) {
	t.Parallel()
	wrote := make(chan error, 1)
	failure := errors.New("broken pipe")
	in, _ := io.Pipe()
	t.Cleanup(func() { _ = in.Close() })
	r := start(t, Config{Address: Address{Kind: Stdio}, Stdin: in, Stdout: failing{failure}}, func(_ context.Context, s rpc.Stream, _ Peer) {
		var err error
		for err == nil {
			err = send(s, []byte("x"))
		}
		wrote <- err
	})
	if err := await(t, wrote, "the end of the write"); !errors.Is(err, failure) {
		t.Errorf("write: %v", err)
	}
	r.ends(nil)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestOffHasNoServer(t *testing.T) {
	t.Parallel()
	for _, a := range []Address{{Kind: Off}, {}} {
		if _, err := Listen(t.Context(), Config{Address: a}); err == nil {
			t.Errorf("%s is served", a)
		}
	}
}
