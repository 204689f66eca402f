package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// maxHandshakeBytes is the maximum length of the handshake line. A valid one contains a certificate of at most 4 KiB.
const maxHandshakeBytes = 16 << 10

// ErrNotHandshake is returned by [ParseHandshake] for a line that is not a handshake at all. The host may skip a few such lines,
// which the plugin's runtime may have printed.
var ErrNotHandshake = errors.New("not a handshake line")

// Handshake is the first line that a plugin prints: `1|1|unix|/dir/name|grpc`, optionally followed by a certificate.
type Handshake struct {
	Core     int      // go-plugin's protocol version
	App      int      // gantry's protocol version
	Network  string   // must be "unix"
	Address  string   // path of the socket
	Protocol string   // must be "grpc"; "netrpc" if the line has no protocol
	Cert     string   // DER of the server's certificate, base64 without padding; may be empty
	Extra    []string // further fields
}

// ParseHandshake parses a line. [Handshake.Check] checks its values, and the host checks the address, because it knows the
// folder that it assigned.
func ParseHandshake(line string) (Handshake, error) {
	if len(line) > maxHandshakeBytes {
		return Handshake{}, fmt.Errorf("%w: longer than %d bytes", ErrNotHandshake, maxHandshakeBytes)
	}
	line = strings.TrimSpace(line)
	f := strings.Split(line, "|")
	core, err := version(f[0])
	if len(f) < 4 || err != nil {
		return Handshake{}, fmt.Errorf("%w: %s", ErrNotHandshake, quoteLine(line))
	}
	for _, r := range line {
		if r < ' ' || r == 0x7f {
			return Handshake{}, fmt.Errorf("the handshake line contains control characters: %s", quoteLine(line))
		}
	}
	h := Handshake{Core: core, Network: f[2], Address: f[3], Protocol: "netrpc"}
	if h.App, err = version(f[1]); err != nil {
		return Handshake{}, fmt.Errorf("the protocol version in the handshake line is not a number: %s", quoteLine(f[1]))
	}
	if h.Address == "" {
		return Handshake{}, errors.New("the handshake line has no address")
	}
	if len(f) > 4 {
		h.Protocol = f[4]
	}
	if len(f) > 5 {
		h.Cert = f[5]
	}
	if len(f) > 6 {
		h.Extra = f[6:]
	}
	if strings.ContainsFunc(h.Network+h.Protocol+h.Cert, unicode.IsSpace) {
		return Handshake{}, fmt.Errorf("the handshake line contains white space: %s", quoteLine(line))
	}
	return h, nil
}

// version parses a version number: at most five decimal digits without a sign.
func version(s string) (int, error) {
	if s == "" || len(s) > 5 || strings.Trim(s, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(s)
}

// quoteLine quotes and shortens a plugin's output for an error message.
func quoteLine(s string) string {
	const most = 120
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

// Check returns an error if the host does not support the values in the line. It does not check the address.
func (h Handshake) Check() error {
	switch {
	case h.Core != CoreVersion:
		return fmt.Errorf("incompatible core API version: the plugin uses %d, the host %d; rebuild the plugin", h.Core, CoreVersion)
	case h.App != ProtocolVersion:
		return fmt.Errorf("incompatible API version: the plugin uses %d, the host %d; use compatible versions of plugin and host",
			h.App, ProtocolVersion)
	case h.Network != "unix":
		return fmt.Errorf("unsupported network %s: a plugin must listen on a unix socket in the folder in %s",
			quoteLine(h.Network), SocketDirEnv)
	case h.Protocol != "grpc":
		return fmt.Errorf("unsupported plugin protocol %s: only grpc is supported", quoteLine(h.Protocol))
	}
	_, err := h.Certificate()
	return err
}

// Certificate returns the certificate in DER form, or nil if there is none.
func (h Handshake) Certificate() ([]byte, error) {
	if h.Cert == "" {
		return nil, nil
	}
	der, err := base64.RawStdEncoding.DecodeString(h.Cert)
	if err != nil {
		return nil, errors.New("the certificate in the handshake line is not unpadded base64")
	}
	return der, nil
}

// String formats the handshake as a line.
func (h Handshake) String() string {
	s := fmt.Sprintf("%d|%d|%s|%s|%s", h.Core, h.App, h.Network, h.Address, h.Protocol)
	if h.Cert != "" || len(h.Extra) > 0 {
		s += "|" + h.Cert
	}
	for _, e := range h.Extra {
		s += "|" + e
	}
	return s
}
