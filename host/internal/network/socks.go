package network

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/config/hosts"
)

// SOCKS5 (RFC 1928), as far as it is needed here: CONNECT without authentication. Libraries bring servers with a resolver and a dialler
// of their own, while this takes two messages and their replies.
const (
	socksVersion    = 5
	socksNoPassword = 0
	socksNoMethod   = 0xff
	socksConnect    = 1
	socksIPv4       = 1
	socksName       = 3
	socksIPv6       = 4
)

// Codes of replies.
const (
	socksOK          = 0
	socksRuleset     = 2 // refused by the rules
	socksUnreachable = 4
	socksNoCommand   = 7
	socksNoAddress   = 8
)

var (
	errSocks     = errors.New("the client does not speak SOCKS5")
	errSocksAuth = errors.New("the client requires authentication")
)

// socksError is the code of the reply to a request that can't be served.
type socksError byte

func (e socksError) Error() string { return "the SOCKS5 request can't be served" }

// readGreeting reads the authentication methods that a client offers.
func readGreeting(r io.Reader) error {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	if head[0] != socksVersion || head[1] == 0 {
		return errSocks
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(r, methods); err != nil {
		return err
	}
	if !slices.Contains(methods, socksNoPassword) {
		return errSocksAuth
	}
	return nil
}

// readRequest reads the target of a CONNECT request.
func readRequest(r io.Reader) (host string, port uint16, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", 0, err
	}
	if head[0] != socksVersion {
		return "", 0, errSocks
	}
	var length int
	switch head[3] {
	case socksIPv4:
		length = 4
	case socksIPv6:
		length = 16
	case socksName:
		var n [1]byte
		if _, err := io.ReadFull(r, n[:]); err != nil {
			return "", 0, err
		}
		length = int(n[0])
	default:
		return "", 0, socksError(socksNoAddress)
	}
	rest := make([]byte, length+2)
	if _, err := io.ReadFull(r, rest); err != nil {
		return "", 0, err
	}
	port = binary.BigEndian.Uint16(rest[length:])
	if head[1] != socksConnect {
		return "", 0, socksError(socksNoCommand)
	}
	if head[3] == socksName {
		return string(rest[:length]), port, nil
	}
	a, _ := netip.AddrFromSlice(rest[:length])
	return a.String(), port, nil
}

func (p *Proxy) socks(ctx context.Context, conn net.Conn, in *bufio.Reader) {
	switch err := readGreeting(in); {
	case errors.Is(err, errSocksAuth):
		_, _ = conn.Write([]byte{socksVersion, socksNoMethod})
		return
	case err != nil:
		return
	}
	if _, err := conn.Write([]byte{socksVersion, socksNoPassword}); err != nil {
		return
	}
	answer := func(code byte) error {
		_, err := conn.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
		return err
	}
	host, port, err := readRequest(in)
	if code, ok := errors.AsType[socksError](err); ok {
		_ = answer(byte(code))
	}
	if err != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	q := Request{Protocol: SOCKS5, Host: hosts.Normalize(bracketed(host)), Port: port}
	d := p.judge(ctx, q)
	if !d.Allow {
		_ = answer(socksRuleset)
		return
	}
	server, err := p.dial(ctx, d)
	if err != nil {
		_ = answer(socksUnreachable)
		return
	}
	if answer(socksOK) != nil {
		server.Close()
		return
	}
	p.tunnel(ctx, conn, in, server, q, d)
}

// bracketed puts an IPv6 address in brackets, so that it is not parsed as a host with a port.
func bracketed(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return "[" + host + "]"
	}
	return host
}
