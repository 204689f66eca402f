package transport

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// passed is the endpoint of the one client at the other end of a connected socket that the parent has passed on. Nobody else can reach
// it. In contrast to stdio, a turn that runs when the client leaves goes on.
type passed struct {
	conn net.Conn
	fd   int
}

func listenPassed(cfg Config) (*passed, error) {
	f := os.NewFile(uintptr(cfg.Address.FD), "client")
	if f == nil {
		return nil, fmt.Errorf("%s can't be used", cfg.Address)
	}
	defer func() { _ = f.Close() }() // FileConn has duplicated it
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, hint.New(fmt.Sprintf("%s is not a connected socket: %v", cfg.Address, err), "let the program that starts the server pass one on")
	}
	return &passed{conn, cfg.Address.FD}, nil
}

func (p *passed) url() string { return Address{Kind: Passed, FD: p.fd}.String() }

func (p *passed) refuse() {}

// run serves the client until it closes the socket.
func (p *passed) run(ctx, kill context.Context, handle Handler) error {
	serveStream(ctx, kill, rpc.Lines(p.conn, p.conn, p.conn), Peer{Kind: Passed}, handle)
	return nil
}
