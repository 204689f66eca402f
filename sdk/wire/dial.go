package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
)

// DialHost prepares a connection to the services that the host announced in Configure; the connection is established with
// the first call. ctx bounds only the preparation. The caller closes the connection.
func DialHost(ctx context.Context, socket, token string) (*grpc.ClientConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("dial host: %w", context.Cause(ctx))
	}
	if socket == "" {
		return nil, errors.New("dial host: the host offers no services")
	}
	if fi, err := os.Stat(socket); err != nil {
		return nil, fmt.Errorf("dial host: %w", err)
	} else if fi.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("dial host: %s is not a socket", socket)
	}
	conn, err := grpc.NewClient("passthrough:///host", append(PlainErrors(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}),
		grpc.WithTransportCredentials(localCredentials()),
		grpc.WithPerRPCCredentials(Token(token)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(DefaultMaxMessageBytes)),
		grpc.WithInitialWindowSize(WindowBytes),
		grpc.WithInitialConnWindowSize(WindowBytes),
		grpc.WithDisableServiceConfig(),
	)...)
	if err != nil {
		return nil, fmt.Errorf("dial host: %w", err)
	}
	return conn, nil
}
