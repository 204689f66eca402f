package threadsocket

import (
	"context"
	"net"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// NewClient makes a client of a connection, for tests without a socket.
func NewClient(ctx context.Context, conn net.Conn, pid int) *Client {
	c := newProcess(ctx, conn, pid).Thread(event.NewThreadID())
	c.owned = true
	return c
}
