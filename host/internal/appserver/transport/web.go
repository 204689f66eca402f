package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gorilla/websocket"
	"github.com/hashicorp/go-hclog"
)

// web is the endpoint of clients that speak websocket, over TCP or a unix socket.
type web struct {
	cfg      Config
	address  string
	gate     *gate
	verifier verifier // nil: every client is accepted
	upgrader websocket.Upgrader
	places   chan struct{} // of clients; full: no more are served
	pending  sync.WaitGroup
	clients  sync.WaitGroup

	// Of run.
	ctx, kill context.Context
	handle    Handler
}

// listenTCP opens a server's port.
func listenTCP(ctx context.Context, cfg Config) (endpoint, error) {
	var v verifier
	if cfg.Page == nil {
		var err error
		if v, err = cfg.Auth.load(cfg.Logger); err != nil {
			return nil, err
		}
	}
	network := "tcp6" // "tcp" would listen on all IPv6 addresses for 0.0.0.0 as well
	if cfg.Address.TCP.Addr().Is4() {
		network = "tcp4"
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, network, cfg.Address.TCP.String())
	if err != nil {
		return nil, err
	}
	w := newWeb(cfg, ln, "ws://"+ln.Addr().String())
	switch {
	case cfg.Page != nil:
		w.address = "http://" + ln.Addr().String() + "/"
	case cfg.HTTP != nil:
		w.address = "http://" + ln.Addr().String() + pathMCP
	}
	w.verifier = v
	return w, nil
}

func newWeb(cfg Config, ln net.Listener, address string) *web {
	w := &web{cfg: cfg, address: address, gate: newGate(ln, cfg.MaxPending, cfg.Logger), places: make(chan struct{}, cfg.MaxClients)}
	w.upgrader = websocket.Upgrader{
		HandshakeTimeout: cfg.MaxHandshake,
		CheckOrigin:      func(*http.Request) bool { return true }, // ServeHTTP has refused foreign ones
		Error: func(rw http.ResponseWriter, _ *http.Request, status int, reason error) {
			http.Error(rw, reason.Error(), status)
		},
	}
	return w
}

func (w *web) url() string { return w.address }

func (w *web) refuse() {
	if err := w.gate.Close(); err != nil {
		w.cfg.Logger.Warn("socket not closed", "address", w.address, "err", err)
	}
}

func (w *web) run(ctx, kill context.Context, handle Handler) error {
	w.ctx, w.kill, w.handle = ctx, kill, handle
	srv := &http.Server{
		Handler:                      w,
		DisableGeneralOptionsHandler: true,
		ReadTimeout:                  w.cfg.MaxHandshake, // of the whole request; the upgrade ends it
		WriteTimeout:                 w.cfg.MaxHandshake,
		MaxHeaderBytes:               maxHeader,
		ErrorLog:                     w.cfg.Logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(c net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				w.pending.Add(1)
			case http.StateHijacked, http.StateClosed:
				c.(*conn).admitted()
				w.pending.Done()
			}
		},
	}
	srv.SetKeepAlivesEnabled(false) // a connection is for one request
	err := srv.Serve(w.gate)
	if w.gate.refused() {
		err = nil
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() }) // those whose request is not complete
	defer stop()
	w.pending.Wait()
	w.clients.Wait()
	return err
}

type connKey struct{}

// Plain paths that answer whether the server runs.
const (
	pathReady  = "/readyz"
	pathHealth = "/healthz"
)

// ServeHTTP implements [http.Handler]. It returns when the client has left.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch {
	case w.cfg.Page == nil && len(r.Header.Values("Origin")) > 0:
		// Only browsers send it, and they let any page open a websocket to any address.
		http.Error(rw, "requests of web pages are refused", http.StatusForbidden)
		return
	case w.cfg.Address.Kind == TCP && !knownHost(r):
		// A name that the owner of a page has pointed at this address.
		http.Error(rw, "unknown host: connect by IP address, or as localhost, and to the server's own port", http.StatusForbidden)
		return
	case w.cfg.Page != nil && !websocket.IsWebSocketUpgrade(r):
		w.servePage(rw, r)
		return
	case w.cfg.Page != nil:
		w.serveClientOfPage(rw, r)
		return
	case w.cfg.HTTP != nil:
		w.serveHTTP(rw, r)
		return
	case r.Method != http.MethodGet:
		rw.Header().Set("Allow", http.MethodGet)
		http.Error(rw, "method not allowed", http.StatusMethodNotAllowed)
		return
	case !websocket.IsWebSocketUpgrade(r):
		if r.URL.Path == pathReady || r.URL.Path == pathHealth {
			return // 200
		}
		http.Error(rw, "not a websocket handshake", http.StatusBadRequest)
		return
	}
	p, leave, ok := w.admit(rw, r)
	if !ok {
		return
	}
	defer leave()
	w.serveClient(rw, r, p, nil)
}

// serveClient serves a client that was admitted, with the headers of the response to its handshake.
func (w *web) serveClient(rw http.ResponseWriter, r *http.Request, p Peer, header http.Header) {
	handle, frames := w.handle, strings.HasPrefix(r.URL.Path, pathView) && w.cfg.Views != nil
	if frames {
		var ok bool
		if handle, ok = w.cfg.Views(strings.TrimPrefix(r.URL.Path, pathView), p); !ok {
			http.Error(rw, "no such view", http.StatusNotFound)
			return
		}
	}
	w.clients.Add(1) // before the upgrade, which ends the pending connection
	defer w.clients.Done()
	c, err := w.upgrader.Upgrade(rw, r, header)
	if err != nil {
		w.cfg.Logger.Debug("websocket handshake failed", "peer", r.RemoteAddr, "err", err)
		return
	}
	stream := rpc.WebSocket(c)
	if frames {
		c.SetReadLimit(maxAck)
		stream = frameStream{stream, c}
	}
	serveStream(w.ctx, w.kill, stream, p, handle)
}

// admit checks who a client is, and takes a place for it. If ok is false, the client was refused.
func (w *web) admit(rw http.ResponseWriter, r *http.Request) (p Peer, leave func(), ok bool) {
	refuse := func(status int, reason string, err error) (Peer, func(), bool) {
		w.cfg.Logger.Warn("client refused", "peer", r.RemoteAddr, "err", err)
		http.Error(rw, reason, status)
		return Peer{}, nil, false
	}
	if err := authorize(w.verifier, r.Header, time.Now()); err != nil {
		rw.Header().Set("WWW-Authenticate", "Bearer")
		reason := err.Error()
		if w.cfg.HTTP != nil {
			reason = strings.Replace(reason, "websocket ", "", 1)
		}
		return refuse(http.StatusUnauthorized, reason, err)
	}
	if w.gate.refused() {
		http.Error(rw, "the server is stopping", http.StatusServiceUnavailable)
		return Peer{}, nil, false
	}
	select {
	case w.places <- struct{}{}:
	default:
		return refuse(http.StatusServiceUnavailable, "too many clients", fmt.Errorf("%d clients are connected", w.cfg.MaxClients))
	}
	p, err := r.Context().Value(connKey{}).(*conn).identified()
	if err != nil {
		<-w.places
		return refuse(http.StatusInternalServerError, "the process of the client can't be determined", err)
	}
	return p, func() { <-w.places }, true
}

// pathMCP is the path of [Config.HTTP].
const pathMCP = "/mcp"

// serveHTTP serves a request of a client that does not use a websocket.
func (w *web) serveHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path != pathMCP {
		http.Error(rw, "not found: the server is at "+pathMCP, http.StatusNotFound)
		return
	}
	p, leave, ok := w.admit(rw, r)
	if !ok {
		return
	}
	defer leave()
	if w.launched(rw, r, p) {
		return
	}
	w.clients.Add(1)
	defer w.clients.Done()
	r.Context().Value(connKey{}).(*conn).admitted() // others must not wait for a response that takes long
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	response := http.NewResponseController(rw)
	if err := errors.Join(response.SetReadDeadline(time.Time{}), response.SetWriteDeadline(time.Time{})); err != nil {
		w.cfg.Logger.Debug("deadlines stay", "peer", r.RemoteAddr, "err", err)
	}
	w.cfg.HTTP.ServeHTTP(rw, r.WithContext(ctx))
}

// pathView begins the paths of connections for the frames of a view.
const pathView = "/view/"

// maxAck is the size in bytes of the largest message of a client on a connection for frames.
const maxAck = 1 << 10

// frameStream writes binary messages, and reads text messages.
type frameStream struct {
	rpc.Stream
	c *websocket.Conn
}

// Write implements [rpc.Stream].
func (s frameStream) Write(msg []byte) error { return s.c.WriteMessage(websocket.BinaryMessage, msg) }

// knownHost reports whether a request names this server by an address that no other machine's owner can point here: that of the
// connection, or one of the loopback.
func knownHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return false
	}
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil { // without a port
		host, port = strings.TrimSuffix(strings.TrimPrefix(r.Host, "["), "]"), "80"
	}
	if port != strconv.Itoa(local.Port) {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = ip.Unmap()
	return ip == local.AddrPort().Addr().Unmap().WithZone("") || ip == netip.IPv6Loopback() || ip == netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
