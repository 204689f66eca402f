package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// maxHandshakeBytes bounds the handshake line. The longest honest one carries a certificate of under 4 KiB.
const maxHandshakeBytes = 16 << 10

// ErrNotHandshake is returned by [ParseHandshake] for a line that is no attempt at a handshake. The host may skip a few of
// them as noise of a plugin's runtime.
var ErrNotHandshake = errors.New("not a handshake line")

// Handshake is the first line that a plugin prints: `1|1|unix|/dir/name|grpc`, optionally followed by a certificate.
type Handshake struct {
	Core     int      // protocol version of go-plugin
	App      int      // protocol version of ours
	Network  string   // "unix" is what we accept
	Address  string   // path of the socket
	Protocol string   // "grpc" is what we accept; "netrpc" when the line doesn't say
	Cert     string   // DER of the server's certificate, base64 without padding; may be empty
	Extra    []string // fields beyond those
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
			return Handshake{}, fmt.Errorf("handshake line with control characters: %s", quoteLine(line))
		}
	}
	h := Handshake{Core: core, Network: f[2], Address: f[3], Protocol: "netrpc"}
	if h.App, err = version(f[1]); err != nil {
		return Handshake{}, fmt.Errorf("handshake line with protocol version %s: not a number", quoteLine(f[1]))
	}
	if h.Address == "" {
		return Handshake{}, errors.New("handshake line without an address")
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
		return Handshake{}, fmt.Errorf("handshake line with white space inside: %s", quoteLine(line))
	}
	return h, nil
}

// version reads a plain decimal number as the protocol writes them: no sign, no more than five digits.
func version(s string) (int, error) {
	if s == "" || len(s) > 5 || strings.Trim(s, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(s)
}

// quoteLine makes a piece of a plugin's output fit for an error message.
func quoteLine(s string) string {
	const most = 120
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

// Check says whether the host can work with what the line says. It doesn't look at the address.
func (h Handshake) Check() error {
	switch {
	case h.Core != CoreVersion:
		return fmt.Errorf("incompatible core API version: the plugin speaks %d, the host %d; rebuild the plugin", h.Core, CoreVersion)
	case h.App != ProtocolVersion:
		return fmt.Errorf("incompatible API version: the plugin speaks %d, the host %d; use a plugin and a host of the same generation",
			h.App, ProtocolVersion)
	case h.Network != "unix":
		return fmt.Errorf("unsupported network %s: a plugin listens on a unix socket in the folder that %s names",
			quoteLine(h.Network), SocketDirEnv)
	case h.Protocol != "grpc":
		return fmt.Errorf("unsupported plugin protocol %s: only grpc is spoken", quoteLine(h.Protocol))
	}
	_, err := h.Certificate()
	return err
}

// Certificate returns the DER of the certificate field, nil when it is empty.
func (h Handshake) Certificate() ([]byte, error) {
	if h.Cert == "" {
		return nil, nil
	}
	der, err := base64.RawStdEncoding.DecodeString(h.Cert)
	if err != nil {
		return nil, errors.New("handshake line with a certificate field that is no unpadded base64")
	}
	return der, nil
}

// String returns the line that says the same.
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
