package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc/credentials"
)

// Peer is the process at the other end of a unix socket, as reported by the kernel: for a client, the process that listens;
// for a server, the process that connected. PID is 0 if that process is in a PID namespace that is not visible to us.
type Peer struct {
	PID int
	UID uint32
}

// PeerAuth is the authentication info of a connection made with [PeerCredentials].
type PeerAuth struct {
	credentials.CommonAuthInfo
	// Peer is the zero value if no check was requested.
	Peer Peer
}

// AuthType implements [credentials.AuthInfo].
func (PeerAuth) AuthType() string { return TransportPeer }

// PeerOf asks the kernel for the process at the other end of conn. The error matches [errors.ErrUnsupported] if the
// platform can't report it.
func PeerOf(conn net.Conn) (Peer, error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return Peer{}, fmt.Errorf("peer credentials: not a unix socket but %T", conn)
	}
	return peerOf(u)
}

func peerOf(conn *net.UnixConn) (peer Peer, _ error) {
	raw, err := conn.SyscallConn()
	if err == nil {
		var credErr error
		err = raw.Control(func(fd uintptr) { peer, credErr = peerCredentialsOf(int(fd)) })
		err = errors.Join(err, credErr)
	}
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	return peer, nil
}

// SameUser is a check for [PeerCredentials]: the peer must run under the same user ID.
func SameUser(p Peer) error {
	if own := uint32(os.Getuid()); p.UID != own {
		return fmt.Errorf("the process at the other end runs as user %d, not as %d", p.UID, own)
	}
	return nil
}

// PeerCredentials returns transport credentials for unix sockets. There is no encryption, because the data doesn't leave
// the kernel; instead, check decides whether to accept the process at the other end, in both directions. A nil check
// accepts any process that could open the socket, for platforms whose kernel doesn't report the peer.
func PeerCredentials(check func(Peer) error) credentials.TransportCredentials {
	return peerCredentials{check: check}
}

type peerCredentials struct{ check func(Peer) error }

func (c peerCredentials) handshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	auth := PeerAuth{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	if c.check == nil {
		if _, ok := conn.(*net.UnixConn); !ok {
			return nil, nil, fmt.Errorf("peer credentials: not a unix socket but %T", conn)
		}
		return conn, auth, nil
	}
	p, err := PeerOf(conn)
	if err != nil {
		return nil, nil, err
	}
	if err := c.check(p); err != nil {
		return nil, nil, fmt.Errorf("peer rejected: %w", err)
	}
	auth.Peer = p
	return conn, auth, nil
}

// ClientHandshake implements [credentials.TransportCredentials].
func (c peerCredentials) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c.handshake(conn)
}

// ServerHandshake implements [credentials.TransportCredentials].
func (c peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c.handshake(conn)
}

// Info implements [credentials.TransportCredentials].
func (c peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: TransportPeer}
}

// Clone implements [credentials.TransportCredentials].
func (c peerCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements [credentials.TransportCredentials]. There are no names to check.
func (c peerCredentials) OverrideServerName(string) error {
	return errors.New("peer credentials check processes, not server names")
}

// localCredentials returns the credentials between processes of the same user. They are checked if the platform supports it.
func localCredentials() credentials.TransportCredentials {
	if !peerSupported {
		return PeerCredentials(nil)
	}
	return PeerCredentials(SameUser)
}
