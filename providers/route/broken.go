package route

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// broken returns the fault for a request that got no response, or lost it. The message says what failed, and Next names the
// attribute to check.
func (a *answer) broken(ctx context.Context, out *Outgoing, err error) *Fault {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return a.fault(e) // from the wrapper of the connections, which explains itself
	}
	p := a.peerOf(out, err)
	t, ok := p.ownLimit(context.Cause(ctx), a.settings)
	for _, explain := range []func(error) (trouble, bool){p.proxyRefused, p.noName, p.certificate, p.unreachable} {
		if ok {
			break
		}
		t, ok = explain(err)
	}
	if !ok {
		t = trouble{
			fmt.Sprintf("the connection to %s failed: %s", p.name, a.shown(err.Error())),
			fmt.Sprintf("check that it is an HTTP server: %s in the provider's block", p.attribute), soon,
		}
	}
	f := a.fault(&llm.Error{Code: llm.ErrTransport, Message: a.shown(t.message), Next: t.next, Retryable: t.hope != never, Offline: unconnected(err)})
	f.URL = a.secrets.URL(out.URL.String())
	f.again = t.hope == soon
	return f
}

// unconnected reports whether no connection was established: the name has no address, or nothing listens there.
func unconnected(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect" && errors.Is(err, syscall.ECONNREFUSED))
}

// trouble describes a connection problem.
type trouble struct {
	message, next string
	hope          hope
}

// hope says whether the same request may succeed later.
type hope int

const (
	never hope = iota // not until the user changes something
	later             // later in the turn, after waiting longer than this package does
	soon              // at the next attempt
)

// peer is the other end of a connection.
type peer struct {
	host      string // of the vendor
	proxy     string // host of the proxy; empty: none
	name      string // name for messages
	attribute string // the attribute that configures it
}

func (a *answer) peerOf(out *Outgoing, err error) peer {
	p := peer{host: out.URL.Host, name: out.URL.Host, attribute: "base_url"}
	if a.transport.Proxy != nil {
		if u, err := a.transport.Proxy(&http.Request{URL: out.URL}); err == nil && u != nil {
			p.proxy = u.Host
			password, _ := u.User.Password()
			a.secrets.Add(password)
		}
	}
	// net/http names the step that failed.
	if op, ok := errors.AsType[*net.OpError](err); ok && p.proxy != "" && (op.Op == "proxyconnect" || op.Op == "socks connect") {
		p.name, p.attribute = "the proxy "+p.proxy, "proxy"
	}
	return p
}

// ownLimit handles our own timeouts.
func (p peer) ownLimit(cause error, limits Transport) (trouble, bool) {
	switch cause {
	case errNoHead: // all attempts together would take half an hour
		return trouble{
			fmt.Sprintf("%s did not begin to respond within %v", p.host, limits.HeaderTimeout),
			"increase timeout in the provider's block if the model may take that long", later,
		}, true
	case errIdle:
		return trouble{
			fmt.Sprintf("%s sent nothing for %v during its response", p.host, limits.IdleTimeout),
			"increase idle_timeout in the provider's block if the model may be silent that long", later,
		}, true
	case errEndless:
		return trouble{
			fmt.Sprintf("the response of %s was not complete after %v", p.host, limits.AnswerTimeout),
			"request less at once; a server that only keeps the connection alive looks the same", never,
		}, true
	}
	return trouble{}, false
}

// proxyRefusal is a proxy's rejection of a tunnel.
type proxyRefusal struct {
	status int
	text   string
}

func (p *proxyRefusal) Error() string { return "the proxy answered " + p.text }

func onProxyConnect(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyRefusal{res.StatusCode, res.Status}
}

func (p peer) proxyRefused(err error) (trouble, bool) {
	refusal, ok := errors.AsType[*proxyRefusal](err)
	switch {
	case !ok:
		return trouble{}, false
	case refusal.status == http.StatusProxyAuthRequired:
		return trouble{fmt.Sprintf("the proxy %s requires a login", p.proxy), proxyLogin, never}, true
	}
	t := trouble{
		message: fmt.Sprintf("the proxy %s does not connect to %s: it answered %s", p.proxy, p.host, refusal.text),
		next:    "check proxy and base_url in the provider's block",
	}
	if refusal.status >= 500 {
		t.hope = soon
	}
	return t, true
}

const proxyLogin = "add user and password to proxy: http://USER:PASSWORD@HOST:PORT"

func (p peer) noName(err error) (trouble, bool) {
	dns, ok := errors.AsType[*net.DNSError](err)
	switch {
	case !ok:
		return trouble{}, false
	case dns.IsNotFound: // may be temporary: without network, all names fail like this
		return trouble{
			fmt.Sprintf("there is no host named %q", dns.Name),
			fmt.Sprintf("check %s in the provider's block, and the network", p.attribute), later,
		}, true
	}
	return trouble{
		fmt.Sprintf("the address of %q could not be looked up: %s", dns.Name, dns.Err),
		fmt.Sprintf("check the network, then %s in the provider's block", p.attribute), soon,
	}, true
}

// certificate handles certificates that are invalid or cannot be verified.
func (p peer) certificate(err error) (trouble, bool) {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return trouble{
			fmt.Sprintf("the certificate of %s is signed by an authority that is not trusted here", p.name),
			fmt.Sprintf("set ca_file in the provider's block to the authority's certificate, or correct %s", p.attribute), never,
		}, true
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return trouble{
			fmt.Sprintf("the certificate of %s is for another host: %v", p.name, wrong),
			fmt.Sprintf("correct the host in %s", p.attribute), never,
		}, true
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return trouble{
				p.expired(invalid.Cert, time.Now()),
				fmt.Sprintf("check this machine's clock; if it is right the server needs a new certificate, or %s another host", p.attribute),
				never,
			}, true
		}
		return trouble{
			fmt.Sprintf("the certificate of %s is not valid: %v", p.name, invalid),
			fmt.Sprintf("check ca_file and %s in the provider's block", p.attribute), never,
		}, true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return trouble{
			fmt.Sprintf("%s does not speak TLS", p.name), fmt.Sprintf("write http:// in %s if that is meant", p.attribute), never,
		}, true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" { // crypto/tls's name for an alert
		return trouble{
			fmt.Sprintf("%s refused the TLS handshake: %v", p.name, op.Err),
			fmt.Sprintf("check %s in the provider's block", p.attribute), never,
		}, true
	}
	return trouble{}, false
}

func (p peer) expired(cert *x509.Certificate, now time.Time) string {
	const day = "2006-01-02"
	if now.Before(cert.NotBefore) {
		return fmt.Sprintf("the certificate of %s is not valid before %s", p.name, cert.NotBefore.Format(day))
	}
	return fmt.Sprintf("the certificate of %s expired on %s", p.name, cert.NotAfter.Format(day))
}

// unreachable handles a connection that was not established or was closed.
func (p peer) unreachable(err error) (trouble, bool) {
	is := func(errs ...error) bool {
		for _, e := range errs {
			if errors.Is(err, e) {
				return true
			}
		}
		return false
	}
	switch timeout, ok := errors.AsType[net.Error](err); {
	case is(syscall.ECONNREFUSED):
		return trouble{
			p.name + " refused the connection", fmt.Sprintf("check that the server is running, and host and port in %s", p.attribute), soon,
		}, true
	case is(syscall.ENETUNREACH, syscall.EHOSTUNREACH):
		return trouble{
			"there is no route to " + p.name + " from here",
			"check the network; base_url and proxy in the provider's block say where to go", soon,
		}, true
	case ok && timeout.Timeout():
		return trouble{
			p.name + " did not accept the connection in time", "check the network, then base_url and proxy in the provider's block", soon,
		}, true
	case is(io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE):
		return trouble{"the connection to " + p.name + " broke off", "check the network, and proxy in the provider's block", soon}, true
	}
	return trouble{}, false
}
