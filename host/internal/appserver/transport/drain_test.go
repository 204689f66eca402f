package transport

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/rpc"
)

func TestPhases(t *testing.T) {
	t.Parallel()
	const hup, intr, term = syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM
	for _, test := range []struct {
		from phase
		sig  os.Signal
		many bool
		want phase
	}{
		{serving, intr, true, draining}, {serving, term, true, draining}, {serving, hup, true, draining},
		{serving, intr, false, draining}, {serving, term, false, draining}, {serving, hup, false, draining},
		{draining, intr, true, forced}, {draining, term, true, forced}, {draining, hup, true, draining},
		{draining, intr, false, forced}, {draining, term, false, forced}, {draining, hup, false, forced},
		{stopping, term, true, forced}, {stopping, hup, true, stopping},
		{forced, term, true, forced}, {forced, hup, true, forced},
	} {
		if got := test.from.signaled(test.sig, test.many); got != test.want {
			t.Errorf("%v, %v, many: %v: %v, want %v", test.from, test.sig, test.many, got, test.want)
		}
	}
}

// turn is a turn of a test: Idle waits for its end.
type turn struct{ began, end chan struct{} }

func newTurn() *turn { return &turn{make(chan struct{}), make(chan struct{})} }

func (i *turn) idle(ctx context.Context) {
	close(i.began) // a second call would panic
	select {
	case <-i.end:
	case <-ctx.Done():
	}
}

// addresses are the transports for many clients.
func addresses(t *testing.T, test func(*testing.T, Config)) {
	for name, cfg := range map[string]Config{"tcp": {Address: loopback, Auth: Auth{Mode: AuthNone}}, "unix": {Address: Address{Kind: Unix}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if cfg.Address.Kind == Unix {
				skipWithoutSockets(t)
			}
			test(t, cfg)
		})
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		addresses(t, func(t *testing.T, cfg Config) {
			turn := newTurn()
			cfg.Idle = turn.idle
			why := make(chan error, 1)
			r := start(t, cfg, func(ctx context.Context, s rpc.Stream, p Peer) {
				echo(ctx, s, p)
				why <- context.Cause(ctx)
			})
			half := r.conn() // a handshake that is not complete when the server begins to drain
			c := r.client()
			echoes(t, c, "serving")

			r.signals <- sig
			await(t, turn.began, "the wait for turns")
			echoes(t, c, "draining")
			if conn, err := net.Dial(half.RemoteAddr().Network(), half.RemoteAddr().String()); err == nil {
				conn.Close()
				t.Error("a new client is accepted while the server drains")
			}
			if _, err := half.Write([]byte(handshake("/", r.host(), ""))); err != nil {
				t.Fatal(err)
			}
			if status := statusOf(t, half); status != 503 {
				t.Errorf("a handshake while the server drains: %d", status)
			}
			r.signals <- syscall.SIGHUP // adds nothing
			echoes(t, c, "still draining")

			close(turn.end)
			r.ends(nil)
			left(t, c)
			if err := await(t, why, "the end of the handler"); err != ErrDrained {
				t.Errorf("the handler's cause is %v", err)
			}
		})
	}
}

func TestDrainWithoutClients(t *testing.T) {
	t.Parallel()
	addresses(t, func(t *testing.T, cfg Config) {
		turn := newTurn()
		cfg.Idle = turn.idle
		r := start(t, cfg, echo)
		c := r.client()
		echoes(t, c, "hello")
		_ = c.Close()
		r.signals <- syscall.SIGTERM
		await(t, turn.began, "the wait for turns")
		select {
		case err := <-r.result:
			t.Fatalf("Serve returns %v while a turn is running", err)
		default:
		}
		close(turn.end)
		r.ends(nil)
	})
}

func TestForcedEnd(t *testing.T) {
	t.Parallel()
	addresses(t, func(t *testing.T, cfg Config) {
		turn := newTurn() // which never ends
		cfg.Idle = turn.idle
		why := make(chan error, 1)
		r := start(t, cfg, func(ctx context.Context, s rpc.Stream, p Peer) {
			_, _ = s.Read() // ignores ctx: the end of the stream interrupts it
			why <- context.Cause(ctx)
		})
		c := r.client()
		r.signals <- syscall.SIGTERM
		await(t, turn.began, "the wait for turns")
		r.signals <- syscall.SIGTERM
		r.ends(ErrForced)
		left(t, c)
		if err := await(t, why, "the end of the handler"); err != ErrForced {
			t.Errorf("the handler's cause is %v", err)
		}
	})
}

// A handler that ignores everything does not keep a forced end waiting, and one that ignores only its ctx loses its stream.
func TestHandlersThatDoNotEnd(t *testing.T) {
	t.Parallel()
	addresses(t, func(t *testing.T, cfg Config) {
		cfg.Grace = 1
		release, began := make(chan struct{}), make(chan struct{})
		r := start(t, cfg, func(context.Context, rpc.Stream, Peer) {
			close(began)
			<-release
		})
		c := r.client()
		await(t, began, "a client")
		r.signals <- syscall.SIGTERM
		left(t, c)
		r.signals <- syscall.SIGTERM
		r.ends(ErrForced)
		close(release)
	})
	addresses(t, func(t *testing.T, cfg Config) {
		cfg.Grace = 1
		began := make(chan struct{})
		r := start(t, cfg, func(_ context.Context, s rpc.Stream, _ Peer) {
			close(began)
			_, _ = s.Read()
		})
		r.client()
		await(t, began, "a client")
		r.signals <- syscall.SIGTERM
		r.ends(nil)
	})
}

func TestCanceled(t *testing.T) {
	t.Parallel()
	addresses(t, func(t *testing.T, cfg Config) {
		cfg.MaxHandshake, cfg.Grace = time.Hour, time.Hour
		r := start(t, cfg, echo)
		half := r.conn()
		c := r.client()
		echoes(t, c, "hello")
		cause := errors.New("canceled")
		r.cancel(cause)
		r.ends(cause)
		left(t, c)
		if _, err := half.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a pending connection: %v", err)
		}
	})
}
