// Package wire is the boundary between the host and a plugin process: how each finds, identifies and authenticates the
// other, and how a plugin is served.
//
// It owns: the names and values that both sides must agree on, the handshake line, the hello on the lifeline, transport
// credentials and tokens, the passing of descriptors, and the serve loop of a plugin. It must not know: what a tool or a
// provider does, how the host supervises a process, what is in a message apart from its token.
//
// Start with [Serve] on the plugin's side, and with [NewToken], [WriteHello], [ParseHandshake] and [PeerCredentials] on the
// host's. The package implements go-plugin's gRPC protocol without importing that library, which keeps plugins small and
// their start fast.
package wire

import (
	"crypto/rand"
	"encoding/hex"
)

// Values that both sides must agree on.
const (
	// CookieKey and CookieValue tell a plugin that it was started by a host. They help a person who runs the binary by
	// hand; they provide no protection.
	CookieKey   = "GANTRY_PLUGIN"
	CookieValue = "b7c1f0e2-5d0a-4c36-9a4e-6f1c8d92e5aa"

	// CoreVersion is the version of go-plugin's own protocol, the first field of the handshake line.
	CoreVersion = 1
	// ProtocolVersion is the second field, which go-plugin calls the application's version.
	ProtocolVersion = 1

	// TokenKey is the metadata key under which every call carries its token, in both directions.
	TokenKey = "gantry-token"

	// LifelineEnv contains the number of the descriptor from which the plugin reads its [Hello], and whose end of file
	// signals the end of the host.
	LifelineEnv = "GANTRY_LIFELINE_FD"
	// SocketDirEnv contains the path of the folder in which the plugin creates its socket.
	SocketDirEnv = "PLUGIN_UNIX_SOCKET_DIR"
	// ProtocolVersionsEnv lists the protocol versions that the host supports.
	ProtocolVersionsEnv = "PLUGIN_PROTOCOL_VERSIONS"

	// HealthService is the name under which a plugin reports its health.
	HealthService = "plugin"

	// DefaultMaxMessageBytes is the maximum message size of either side, unless it announces another limit. A call with a
	// larger message fails with RESOURCE_EXHAUSTED; use an artifact for such content.
	DefaultMaxMessageBytes = 16 << 20

	// WindowBytes is how much of a stream, and of a connection, may be sent ahead of its receiver. Both sides set it, since gRPC would
	// otherwise find a window by measuring the connection, with a ping and its answer for nearly every message.
	WindowBytes = 1 << 20

	// MaxSocketPath is the longest path of a unix socket in bytes: 107 on Linux, 103 on macOS.
	MaxSocketPath = maxSocketPath
)

// Transports in a [Hello].
const (
	// TransportPeer is a plain unix socket whose ends verify each other's credentials. The default.
	TransportPeer = "peercred"
	// TransportTLS is mutual TLS with ephemeral P-256 certificates created by the host.
	TransportTLS = "mtls"
)

// NewToken returns an unguessable token: 256 random bits in hex.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}
