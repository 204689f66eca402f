package network

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hosts"
)

// opening is the protocol with which a client begins a tunnel.
type opening int

const (
	openOther   opening = iota // neither TLS nor HTTP: SSH, a database, or a protocol in which the server speaks first
	openTLS                    // a handshake record
	openRecord                 // another TLS record: some servers skip it and read the ClientHello after it
	openHTTP                   // a request line
	openUnknown                // the connection ended before it was clear
)

// The types of TLS records.
const (
	recordFirst     = 20
	recordHandshake = 22
	recordLast      = 24
)

// open recognizes the protocol of a client from its first bytes, without consuming them. It waits for more input only while they could be
// the beginning of a request line: no other protocol begins with a word in capitals and then waits for its peer in the middle of a line.
func open(in *bufio.Reader) opening {
	for n := 1; ; n++ {
		_, err := in.Peek(n)
		said, _ := in.Peek(in.Buffered())
		switch {
		case len(said) == 0:
			return openUnknown
		case said[0] == recordHandshake:
			return openTLS
		case said[0] >= recordFirst && said[0] <= recordLast:
			return openRecord
		}
		line, _, ended := bytes.Cut(said, []byte("\n"))
		word, _, spaced := bytes.Cut(line, []byte(" "))
		switch capitals := len(word) > 0 && len(bytes.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-")) == 0; {
		case !capitals || bytes.IndexByte(line, 0) >= 0, ended && !spaced:
			return openOther
		case ended && (versioned(line) || string(word) == http.MethodGet): // HTTP/0.9 has only GET and no version
			return openHTTP
		case ended:
			return openOther
		case errors.Is(err, bufio.ErrBufferFull): // no other protocol has such a line
			return openHTTP
		case err != nil:
			return openUnknown
		}
		n = len(said) // the loop adds one
	}
}

// versioned reports whether a line contains a version of HTTP, as request lines do.
func versioned(line []byte) bool { return bytes.Contains(bytes.ToUpper(line), []byte("HTTP/")) }

// errLateHTTP ends a tunnel whose client has sent a request line that [open] does not recognize, but some servers do.
var errLateHTTP = errors.New("an unusual request line")

// firstLine reads from a client and fails before a request line is complete that begins with white space, an empty line or a method in
// lower case. A server may accept such a line, and its host has not been compared.
type firstLine struct {
	in      io.Reader
	word    []byte // the first word of the first line that is not empty
	rest    []byte // the last bytes of that line
	spaced  bool   // the word is complete
	settled bool   // the line is not a request line
}

func (f *firstLine) Read(b []byte) (int, error) {
	n, err := f.in.Read(b)
	for _, c := range b[:n] {
		if f.settled {
			break
		}
		if f.next(c) {
			return 0, errLateHTTP
		}
	}
	return n, err
}

// maxMethod limits the part of the word that is kept.
const maxMethod = 32

// next examines one byte and reports whether the line is a request line.
func (f *firstLine) next(c byte) bool {
	const token = "!#$%&'*+-.^_`|~"
	blank := strings.IndexByte(" \t\v\f\r", c) >= 0
	switch {
	case !f.spaced && len(f.word) == 0 && (blank || c == '\n'):
	case c == 0 || c == '\n':
		f.settled = true
	case !f.spaced && blank:
		f.spaced = true
		return string(f.word) == http.MethodGet
	case !f.spaced:
		if len(f.word) < maxMethod {
			f.word = append(f.word, c)
		}
		f.settled = (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte(token, c) < 0
	default:
		const window = len("HTTP/")
		if len(f.rest) == window {
			f.rest = append(f.rest[:0], f.rest[1:]...)
		}
		f.rest = append(f.rest, c)
		return versioned(f.rest)
	}
	return false
}

// tunnel copies bytes in both directions until both are closed or ctx ends. It compares the client's first bytes with the judged request
// before it sends them to the server.
func (p *Proxy) tunnel(ctx context.Context, client net.Conn, in *bufio.Reader, server net.Conn, q Request, d Decision) {
	requests := make(chan struct{}) // closed when the client speaks HTTP
	carry(ctx, client, in, server, func() (io.Reader, bool) {
		switch open(in) {
		case openTLS:
			return p.checkServerName(ctx, q, client, in)
		case openRecord:
			p.mismatch(q, client, "")
			return nil, false
		case openHTTP:
			close(requests)
			return nil, false
		}
		return &firstLine{in: in}, true
	}, func(err error) {
		if errors.Is(err, errLateHTTP) {
			p.audit(q, Decision{Reason: NameMismatch, Source: ModeGuard})
		}
	}, requests)
	select {
	case <-requests:
		p.inside(ctx, client, in, q, d)
	default:
	}
}

// carry copies in both directions. first returns the reader of the client's bytes, or refuses them; nil: everything is sent. sent is
// called with the error that ended reading from the client. If instead has been closed, carry leaves the client's connection open for its
// next owner.
func carry(ctx context.Context, client net.Conn, in *bufio.Reader, server net.Conn, first func() (io.Reader, bool), sent func(error), instead <-chan struct{}) {
	_ = client.SetReadDeadline(time.Time{})
	defer context.AfterFunc(ctx, func() { server.Close() })()
	defer server.Close()
	var up sync.WaitGroup
	up.Go(func() { // ends with the client's connection, which is closed with ctx or below
		from, ok := io.Reader(in), true
		if first != nil {
			from, ok = first()
		}
		if !ok {
			server.Close()
			return
		}
		_, err := io.Copy(server, from)
		if sent != nil {
			sent(err)
		}
		if errors.Is(err, errLateHTTP) {
			server.Close()
			return
		}
		closeWrite(server)
	})
	_, _ = io.Copy(client, server)
	select {
	case <-instead:
	default:
		closeWrite(client)
		_ = client.SetReadDeadline(time.Now().Add(headTimeout)) // the server has closed; the client may still send something
	}
	up.Wait()
}

// inside serves the HTTP requests of a client in a tunnel. Each has to be for the host of the tunnel, and gets a connection of its own to
// the judged addresses.
func (p *Proxy) inside(ctx context.Context, conn net.Conn, in *bufio.Reader, q Request, d Decision) {
	_ = conn.SetReadDeadline(time.Now().Add(headTimeout))
	p.requests(conn, in, func(r *http.Request, named []string) bool {
		refuse := func(text string) bool {
			_ = respond(conn, http.StatusBadRequest, text, nil)
			return false
		}
		switch {
		case r.Method == http.MethodConnect || r.ProtoMajor != 1 || r.URL.Scheme != "" && r.URL.Scheme != "http":
			return refuse("a tunnel without TLS may carry only HTTP/1.1 requests for its host")
		case r.URL.Host != "":
			named = append(named, r.URL.Host)
			if len(named) == 2 && hosts.Normalize(named[0]) == hosts.Normalize(named[1]) {
				named = named[:1]
			}
		}
		host := q.Target()
		if len(named) > 0 || q.Port == 80 {
			host = strings.TrimSuffix(host, ":"+strconv.Itoa(int(q.Port)))
		}
		for _, h := range named {
			_, _, ok := hosts.CutPort(h)
			if len(named) > 1 || hosts.Normalize(h) != q.Host || ok && portOf(h, "") != q.Port {
				p.audit(q, Decision{Reason: NameMismatch, Source: ModeGuard, NamedHost: hosts.Normalize(h)})
				return refuse("the Host line names another host than the tunnel")
			}
			if ok {
				host = q.Target()
			}
		}
		r.URL = &url.URL{Scheme: "http", Host: q.Target(), Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
		return p.relay(ctx, conn, in, r, host, d)
	})
}
