package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Proxy copies bytes in both directions between in and out, and the unix socket at path, on which a server of the same user must listen.
// It does not look at them: a client at the other end does the websocket handshake itself. The end of in is passed on; Proxy returns
// when the server closes the connection, when out can't be written, or when ctx ends. A read of in that is pending then ends with in.
func Proxy(ctx context.Context, path string, in io.Reader, out io.Writer) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return hint.New("no app server listens on "+path, "start one: gantry app-server --listen unix://")
	}
	if err != nil {
		return err
	}
	conn := c.(*net.UnixConn)
	defer conn.Close()
	peer, err := wire.PeerOf(conn)
	if err == nil {
		err = wire.SameUser(peer)
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%s: %w", path, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	go func() { // ends with in, or with the connection
		_, _ = io.Copy(conn, in)
		_ = conn.CloseWrite()
	}()
	if _, err = io.Copy(out, conn); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
