package transport

import (
	"net/http"
	"strings"
)

// servePage serves a request of a browser for [Config.Page].
func (w *web) servePage(rw http.ResponseWriter, r *http.Request) {
	if !ownOrigin(r) {
		http.Error(rw, "requests of other web pages are refused", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		p, leave, ok := w.admit(rw, r)
		if !ok {
			return
		}
		defer leave()
		if w.launched(rw, r, p) {
			return
		}
	}
	w.cfg.Page.ServeHTTP(rw, r)
}

// serveClientOfPage serves a websocket of [Config.Page].
func (w *web) serveClientOfPage(rw http.ResponseWriter, r *http.Request) {
	if !ownOrigin(r) {
		http.Error(rw, "requests of other web pages are refused", http.StatusForbidden)
		return
	}
	subprotocol, err := w.cfg.Page.Authorize(r)
	if err != nil {
		w.cfg.Logger.Warn("client refused", "peer", r.RemoteAddr, "err", err)
		http.Error(rw, err.Error(), http.StatusUnauthorized)
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
	w.serveClient(rw, r, p, http.Header{"Sec-Websocket-Protocol": {subprotocol}})
}

// launched refuses a client that this process has started, and reports whether it did: a command could start an agent without its own
// sandbox, and answer its questions.
func (w *web) launched(rw http.ResponseWriter, r *http.Request, p Peer) bool {
	if p.Launched {
		w.cfg.Logger.Warn("client refused", "peer", r.RemoteAddr, "err", "this process has started it")
		http.Error(rw, "processes that gantry has started can't use this server", http.StatusForbidden)
	}
	return p.Launched
}

// ownOrigin reports whether a request comes from a page of this server, whose host has been checked. Browsers omit the origin of requests
// without an effect.
func ownOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Upgrade") == ""
	}
	return len(origins) == 1 && strings.EqualFold(origins[0], "http://"+r.Host)
}
