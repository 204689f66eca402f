// Package wire is the border between the host and a plugin process: how one finds, recognises and trusts the other, and
// how a plugin is served.
//
// It owns: the names and values both sides must agree on, the handshake line, the hello on the lifeline, transport
// credentials and tokens, the passing of descriptors, and the serve loop of a plugin. It must not know: what a tool or a
// provider does, how the host supervises a process, what is in a message beyond its token.
//
// Start with [Serve] on the plugin's side, and with [NewToken], [WriteHello], [ParseHandshake] and [PeerCredentials] on
// the host's. The package speaks go-plugin's gRPC protocol without importing that library, which keeps a plugin small and
// its start fast.
package wire

import (
	"crypto/rand"
	"encoding/hex"
)

// What both sides must agree on.
const (
	// CookieKey and CookieValue tell a plugin that a host started it. They help a person who runs the binary by hand; they
	// protect nothing.
	CookieKey   = "GANTRY_PLUGIN"
	CookieValue = "b7c1f0e2-5d0a-4c36-9a4e-6f1c8d92e5aa"

	// CoreVersion is go-plugin's own protocol version, the first field of the handshake line.
	CoreVersion = 1
	// ProtocolVersion is the second field, the version that go-plugin calls the application's.
	ProtocolVersion = 1

	// TokenKey is the metadata key under which every call carries its token, in both directions.
	TokenKey = "gantry-token"

	// LifelineEnv names the descriptor on which the plugin reads its [Hello] and then waits for the host's end.
	LifelineEnv = "GANTRY_LIFELINE_FD"
	// SocketDirEnv names the folder in which the plugin makes its socket.
	SocketDirEnv = "PLUGIN_UNIX_SOCKET_DIR"
	// ProtocolVersionsEnv lists the protocol versions that the host speaks.
	ProtocolVersionsEnv = "PLUGIN_PROTOCOL_VERSIONS"

	// HealthService is the name under which a plugin reports its health.
	HealthService = "plugin"

	// DefaultMaxMessageBytes is the largest message that either side receives unless it announces another limit. A larger
	// one fails its call with RESOURCE_EXHAUSTED; content of that size belongs into an artifact.
	DefaultMaxMessageBytes = 16 << 20

	// MaxSocketPath is the longest path of a unix socket in bytes: 107 on Linux, 103 on macOS.
	MaxSocketPath = maxSocketPath
)

// Names of transports in a [Hello].
const (
	// TransportPeer is a plain unix socket whose two ends check each other's credentials. The default.
	TransportPeer = "peercred"
	// TransportTLS is mutual TLS with throw-away P-256 certificates made by the host.
	TransportTLS = "mtls"
)

// NewToken returns an unguessable token: 256 random bits in hex.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}
