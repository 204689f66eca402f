package network

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxConnections limits the connections of one process tree; further ones are closed at once.
	maxConnections = 256
	// maxHead limits the head of an HTTP request, and the bytes that are read ahead.
	maxHead = 32 << 10
	// headTimeout limits the time for a client's first request, idleTimeout the time between requests. Tunnels have no time
	// limit.
	headTimeout = 30 * time.Second
	idleTimeout = 2 * time.Minute
	dialTimeout = 20 * time.Second
	// serverIdleTimeout limits the time for which a connection to a server waits for another request, maxServers how many wait.
	serverIdleTimeout = 30 * time.Second
	maxServers        = 64
)

// Config configures a proxy. Zero fields mean the documented defaults.
type Config struct {
	// Rules returns the current rules. It is called before each decision.
	Rules    func() Rules
	Resolver Resolver                                                // default: the machine's
	Dial     func(context.Context, netip.AddrPort) (net.Conn, error) // default: TCP
	// Ask requests approval for a connection that the rules neither allow nor deny. It may wait for a person until ctx ends. rule
	// says where the rule is written that asks; empty: there is none. nil: such connections are refused.
	Ask func(ctx context.Context, q Request, rule string) (allow bool)
	// Message explains to the client why a request was refused; nil: [Decision.Message].
	Message func(Request, Decision) string
	// Audit is called with each decision, but only once with equal ones. It may be nil.
	Audit func(Request, Decision)
}

// Proxy is the proxy of one process tree: HTTP, CONNECT and SOCKS5 on one listener.
type Proxy struct {
	cfg       Config
	transport *http.Transport // whose connections are kept for further requests
	once      *http.Transport // each request has a connection of its own
	told      auditor

	mu struct {
		sync.Mutex
		approved map[Request]bool // without methods
	}
}

// New returns a proxy. It starts nothing.
func New(cfg Config) *Proxy {
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", to.String())
		}
	}
	if cfg.Message == nil {
		cfg.Message = func(q Request, d Decision) string { return d.Message(q) }
	}
	p := &Proxy{cfg: cfg}
	p.mu.approved = map[Request]bool{}
	p.transport = &http.Transport{
		DialContext:        p.dialJudged,
		DisableCompression: true, MaxIdleConns: maxServers, IdleConnTimeout: serverIdleTimeout,
		ResponseHeaderTimeout: 10 * time.Minute, MaxResponseHeaderBytes: 1 << 20,
	}
	p.once = p.transport.Clone()
	p.once.DisableKeepAlives = true
	return p
}

// Serve serves connections until the listener is closed or ctx ends, and returns when all connections are closed.
func (p *Proxy) Serve(ctx context.Context, ln net.Listener) {
	ctx, cancel := context.WithCancel(ctx)
	var open sync.WaitGroup
	defer p.transport.CloseIdleConnections()
	defer open.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	room := make(chan struct{}, maxConnections)
	for {
		conn, err := ln.Accept()
		if err != nil {
			if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
				continue
			}
			return
		}
		select {
		case room <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		open.Go(func() { // ends with the connection, at the latest with Serve
			defer func() { <-room }()
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			p.connection(ctx, conn)
		})
	}
}

func (p *Proxy) connection(ctx context.Context, conn net.Conn) {
	in := bufio.NewReaderSize(conn, maxHead)
	_ = conn.SetReadDeadline(time.Now().Add(headTimeout))
	first, err := in.Peek(1)
	switch {
	case err != nil:
	case first[0] == socksVersion:
		p.socks(ctx, conn, in)
	default:
		p.http(ctx, conn, in)
	}
	// Closing a socket with unread data resets the connection, and the client may lose the response.
	closeWrite(conn)
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.CopyN(io.Discard, conn, 1<<20)
}

// judge decides about a request, requests approval if that is necessary, and audits the decision.
func (p *Proxy) judge(ctx context.Context, q Request) Decision {
	rules := p.cfg.Rules()
	d := rules.Decide(ctx, q, p.cfg.Resolver)
	if d.Reason == NotAllowed && p.cfg.Ask != nil {
		key := q
		key.Method = ""
		p.mu.Lock()
		before := p.mu.approved[key]
		p.mu.Unlock()
		if before || p.cfg.Ask(ctx, key, d.Rule) {
			p.mu.Lock()
			p.mu.approved[key] = true
			p.mu.Unlock()
			d = rules.Approve(ctx, q, p.cfg.Resolver)
		} else {
			d.Source = Decider
		}
	}
	p.audit(q, d)
	return d
}

// audit calls Config.Audit, unless it was called with an equal decision.
func (p *Proxy) audit(q Request, d Decision) {
	if p.cfg.Audit == nil {
		return
	}
	if p.told.first(audited{q, d.Reason, d.NamedHost}) {
		p.cfg.Audit(q, d)
	}
}

// dial connects to the first judged address that accepts, or through another proxy.
func (p *Proxy) dial(ctx context.Context, d Decision) (net.Conn, error) {
	switch {
	case d.Allow && d.err != nil:
		return nil, d.err
	case d.Allow && d.Via != nil:
		return through(ctx, d.Via, d.Target)
	}
	if !d.Allow || len(d.Addresses) == 0 {
		return nil, errors.New("the connection was not allowed")
	}
	var errs []error
	for _, a := range d.Addresses {
		one, cancel := context.WithTimeout(ctx, dialTimeout/time.Duration(min(len(d.Addresses), 4)))
		conn, err := p.cfg.Dial(one, a)
		cancel()
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no connection: %w", errors.Join(errs...))
}

type decisionKey struct{}

// dialJudged dials the addresses with which the transport's request was judged.
func (p *Proxy) dialJudged(ctx context.Context, _, _ string) (net.Conn, error) {
	d, ok := ctx.Value(decisionKey{}).(Decision)
	if !ok {
		return nil, errors.New("the connection was not judged")
	}
	return p.dial(ctx, d)
}

// roundTrip sends a request that was judged to its server. A connection is used again only for requests that were judged with the same
// addresses, and that can be repeated: the server may close it at the same time.
func (p *Proxy) roundTrip(r *http.Request, d Decision) (*http.Response, error) {
	repeatable := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	if !repeatable || r.ContentLength != 0 || r.Header.Get("Upgrade") != "" {
		return p.once.RoundTrip(r)
	}
	u := *r.URL
	u.Host = d.key()
	r.URL = &u // the transport distinguishes connections by it, and sends r.Host
	return p.transport.RoundTrip(r)
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}
