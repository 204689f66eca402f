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
	// maxConnections is how many connections one process tree may have at a time; more are closed at once.
	maxConnections = 256
	// maxHead bounds the head of an HTTP request, and what is read ahead.
	maxHead = 32 << 10
	// headTimeout is how long a client may take to say what it wants, idleTimeout how long it may then be silent before the
	// next request. A tunnel has no such bound.
	headTimeout = 30 * time.Second
	idleTimeout = 2 * time.Minute
	dialTimeout = 20 * time.Second
	// maxAudited bounds what one process tree tells of: other connections than those before.
	maxAudited = 200
)

// Config is what a proxy is made of. Zero fields mean the documented defaults.
type Config struct {
	// Rules are asked for before each decision: what changes in them counts from then on.
	Rules    func() Rules
	Resolver Resolver                                                // default: the machine's
	Dial     func(context.Context, netip.AddrPort) (net.Conn, error) // default: TCP
	// Ask is asked about what the rules neither allow nor deny; it may wait for a person, until ctx ends. rule is the place of the
	// rule that wants it so; empty: none does. nil: nobody is asked.
	Ask func(ctx context.Context, q Request, rule string) (allow bool)
	// Audit is told of decisions, of equal ones only once. nil: nobody is.
	Audit func(Request, Decision)
}

// Proxy is the way out of one process tree: HTTP, CONNECT and SOCKS5 on one listener.
type Proxy struct {
	cfg       Config
	transport *http.Transport

	mu struct {
		sync.Mutex
		told     map[told]bool
		approved map[Request]bool // without methods
	}
}

type told struct {
	Request
	reason string
	named  string
}

// New makes a proxy. Nothing starts.
func New(cfg Config) *Proxy {
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", to.String())
		}
	}
	p := &Proxy{cfg: cfg}
	p.mu.told, p.mu.approved = map[told]bool{}, map[Request]bool{}
	p.transport = &http.Transport{
		DialContext:        p.dialJudged,
		DisableCompression: true, DisableKeepAlives: true, // a connection is for one judged request
		ResponseHeaderTimeout: 10 * time.Minute, MaxResponseHeaderBytes: 1 << 20,
	}
	return p
}

// Serve serves what connects until the listener is closed or ctx ends, and returns when nothing is open any more.
func (p *Proxy) Serve(ctx context.Context, ln net.Listener) {
	ctx, cancel := context.WithCancel(ctx)
	var open sync.WaitGroup
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
	// What is closed with something unread in it is reset, and the client may lose the answer.
	closeWrite(conn)
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.CopyN(io.Discard, conn, 1<<20)
}

// judge decides about a request, asks where that helps, and tells of it.
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
	p.tell(q, d)
	return d
}

func (p *Proxy) tell(q Request, d Decision) {
	if p.cfg.Audit == nil {
		return
	}
	k := told{q, d.Reason, d.Named}
	p.mu.Lock()
	again := p.mu.told[k] || len(p.mu.told) >= maxAudited
	if !again {
		p.mu.told[k] = true
	}
	p.mu.Unlock()
	if !again {
		p.cfg.Audit(q, d)
	}
}

// dial connects to the first judged address that answers.
func (p *Proxy) dial(ctx context.Context, d Decision) (net.Conn, error) {
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

// dialJudged dials for the transport what its request was judged by.
func (p *Proxy) dialJudged(ctx context.Context, _, _ string) (net.Conn, error) {
	d, ok := ctx.Value(decisionKey{}).(Decision)
	if !ok {
		return nil, errors.New("the connection was not judged")
	}
	return p.dial(ctx, d)
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}
