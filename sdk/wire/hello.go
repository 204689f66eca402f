package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxHelloBytes is the maximum length of the hello line. A valid one has less than 4 KiB: three P-256 PEM blocks.
const maxHelloBytes = 64 << 10

// Hello is the first line on the lifeline: information that only the plugin may have, and that it needs before it listens.
type Hello struct {
	// Token is required in every call of the host.
	Token string `json:"token"`
	// Transport is [TransportPeer] or [TransportTLS]. Empty: [TransportPeer].
	Transport string `json:"transport"`
	// TLS is the plugin's key material; only with [TransportTLS].
	TLS *Material `json:"tls,omitempty"`
}

// String hides the secrets.
func (h Hello) String() string { return "hello over " + h.Transport }

// GoString hides the secrets.
func (h Hello) GoString() string { return "wire." + h.String() }

func (h Hello) validate() error {
	if h.Token == "" {
		return errors.New("the hello has no token")
	}
	switch h.Transport {
	case "", TransportPeer:
		return nil
	case TransportTLS:
		if h.TLS == nil || h.TLS.CA == "" || h.TLS.Cert == "" || h.TLS.Key == "" {
			return errors.New("the hello requests mtls without certificates")
		}
		return nil
	}
	return fmt.Errorf("the hello requests the unknown transport %q", h.Transport)
}

// WriteHello writes h as one line.
func WriteHello(w io.Writer, h Hello) error {
	if err := h.validate(); err != nil {
		return err
	}
	b, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode hello: %w", err)
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write hello: %w", err)
	}
	return nil
}

// ReadHello reads the line written by [WriteHello] and leaves r positioned after it. An error never quotes the line.
func ReadHello(r *bufio.Reader) (Hello, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > maxHelloBytes {
			return Hello{}, fmt.Errorf("read hello: the line is longer than %d bytes", maxHelloBytes)
		}
		if err == nil {
			break
		}
		if errors.Is(err, io.EOF) {
			return Hello{}, fmt.Errorf("read hello: %w", io.ErrUnexpectedEOF)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return Hello{}, fmt.Errorf("read hello: %w", err)
		}
	}
	var h Hello
	if err := json.Unmarshal(bytes.TrimSpace(line), &h); err != nil {
		return Hello{}, errors.New("read hello: the line is not valid JSON")
	}
	if err := h.validate(); err != nil {
		return Hello{}, fmt.Errorf("read hello: %w", err)
	}
	if h.Transport == "" {
		h.Transport = TransportPeer
	}
	return h, nil
}
