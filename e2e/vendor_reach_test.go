package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // PEM
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem")}
	a.cert, a.key = certificate(t, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "loopback authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	if err := os.WriteFile(a.file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// certificate makes one that is valid for an hour each way, unless c says otherwise; without a parent it signs itself.
func certificate(t *testing.T, parent *authority, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	signer, by := c, key
	if parent != nil {
		signer, by = parent.cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, signer, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// secure serves on TLS with a certificate.
func secure(t *testing.T, h http.Handler, cert *x509.Certificate, key *ecdsa.PrivateKey) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are meant to fail
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func loopback() []net.IP { return []net.IP{net.IPv4(127, 0, 0, 1)} }

// TestVendorCertificates: a vendor that can't be trusted gets no request, and the message says what is wrong with it.
func TestVendorCertificates(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	trust := `  ca_file = "` + ca.file + `"`
	long := time.Now().Add(-48 * time.Hour)
	for name, tc := range map[string]struct {
		parent        *authority
		cert          x509.Certificate
		extra         string
		message, next string // empty: it works
	}{
		"of an authority that is named": {ca, x509.Certificate{IPAddresses: loopback()}, trust, "", ""},
		"of an unknown authority":       {ca, x509.Certificate{IPAddresses: loopback()}, "", "signed by an authority that is not trusted here", "set ca_file"},
		"self-signed":                   {nil, x509.Certificate{IPAddresses: loopback()}, "", "signed by an authority that is not trusted here", "set ca_file"},
		"expired": {ca, x509.Certificate{IPAddresses: loopback(), NotBefore: long, NotAfter: long.Add(time.Hour)}, trust,
			"expired on " + long.Add(time.Hour).UTC().Format("2006-01-02"), "clock"},
		"of another host": {ca, x509.Certificate{DNSNames: []string{"api.example.com"}}, trust, "is for another host", "base_url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var answers []vendors.Answer
			if tc.message == "" {
				answers = append(answers, allIsWell)
			}
			s := vendors.New(t, "openai-responses", answers...)
			cert, key := certificate(t, tc.parent, &tc.cert)
			h := secure(t, s, cert, key)
			r := rig.New(t, "")
			useVendor(r, "openai-responses", h.URL, tc.extra)
			o := ask(t, r)
			if tc.message == "" {
				o.went(t, 0, "")
				return
			}
			o.failed(t, "transport", tc.message, tc.next)
			if len(s.Requests()) > 0 || len(o.notices) > 0 {
				t.Errorf("%d requests, notices %q", len(s.Requests()), o.notices)
			}
		})
	}
	for name, tc := range map[string]struct{ scheme, code, message, next string }{
		"plain text to a server of TLS": {"http", "invalid-request", "Client sent an HTTP request to an HTTPS server", "https://"},
		"TLS to a server of plain text": {"https", "transport", "does not speak TLS", "http://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h *httptest.Server
			if tc.scheme == "http" {
				cert, key := certificate(t, nil, &x509.Certificate{IPAddresses: loopback()})
				h = secure(t, http.NotFoundHandler(), cert, key)
			} else {
				h = httptest.NewServer(http.NotFoundHandler())
				t.Cleanup(h.Close)
			}
			_, address, _ := strings.Cut(h.URL, "://")
			r := rig.New(t, "")
			useVendor(r, "openai-responses", tc.scheme+"://"+address)
			ask(t, r).failed(t, tc.code, tc.message, tc.next)
		})
	}
}

// TestVendorOutOfReach: without a connection the message says whose fault that is; the network may come back, so it is tried
// again for a while.
func TestVendorOutOfReach(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()
	for name, tc := range map[string]struct{ url, extra, message, next string }{
		"no such host":           {"http://vendor.invalid", "", `"vendor.invalid"`, "base_url"},
		"nobody listens":         {"http://" + nobody, "", nobody + " refused the connection", "check that the server is running"},
		"no proxy listens":       {"http://vendor.invalid", `  proxy = "http://` + nobody + `"`, "the proxy " + nobody + " refused the connection", "in proxy"},
		"no such proxy":          {"http://" + nobody, `  proxy = "http://proxy.invalid:3128"`, `"proxy.invalid"`, "proxy"},
		"a proxy that is socks5": {"http://vendor.invalid", `  proxy = "socks5://` + nobody + `"`, "the proxy " + nobody + " refused the connection", "in proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, "")
			useVendor(r, "gemini", tc.url, tc.extra, "  retries = 0")
			o := ask(t, r)
			o.failed(t, "transport", tc.message, tc.next)
			if len(o.notices) == 0 || len(o.notices) > 12 {
				t.Errorf("%d notices: %q", len(o.notices), o.notices)
			}
		})
	}
}

// proxy is one that knows no address but a server's, whatever it is asked for.
type proxy struct {
	*httptest.Server
	login    string // user:password; empty: it wants none
	status   int    // of its refusal; 0: it connects
	tunnels  atomic.Int64
	requests atomic.Int64
}

func newProxy(t *testing.T, to *httptest.Server, login string, refusal int) *proxy {
	t.Helper()
	p := &proxy{login: login, status: refusal}
	target := to.Listener.Addr().String()
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(r.Header.Get("Proxy-Authorization"), "Basic "))
		switch {
		case p.status != 0:
			w.WriteHeader(p.status)
		case string(given) != p.login:
			w.Header().Set("Proxy-Authenticate", `Basic realm="the office"`)
			w.WriteHeader(http.StatusProxyAuthRequired)
		case r.Method == http.MethodConnect:
			p.tunnels.Add(1)
			tunnel(t, w, target)
		default:
			p.requests.Add(1)
			(&httputil.ReverseProxy{Rewrite: func(q *httputil.ProxyRequest) { q.Out.URL.Host = target }, FlushInterval: -1}).ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// tunnel passes bytes both ways until one side ends.
func tunnel(t *testing.T, w http.ResponseWriter, target string) {
	to, err := net.Dial("tcp", target)
	if err != nil {
		t.Error(err)
		return
	}
	defer to.Close()
	from, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer from.Close()
	if _, err := io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return // the client left
	}
	go func() { // owned by the connections: it ends with them
		defer to.Close()
		_, _ = io.Copy(to, from)
	}()
	_, _ = io.Copy(from, to)
}

// TestVendorBehindProxy: proxies carry requests with TLS and without, and their own refusals are told from the vendor's.
func TestVendorBehindProxy(t *testing.T) {
	t.Parallel()
	const login = "user:s3cret-of-the-office"
	ca := newAuthority(t)
	for name, tc := range map[string]struct {
		tls           bool
		login         string // that the block has
		refusal       int
		environment   bool
		message, next string // empty: it works
	}{
		"tls":                      {tls: true, login: login + "@"},
		"plain":                    {login: login + "@"},
		"tls, by the environment":  {tls: true, login: login + "@", environment: true},
		"tls, without login":       {tls: true, message: "requires a login", next: "add user and password to proxy"},
		"plain, without login":     {message: "requires a login", next: "add user and password to proxy"},
		"tls, with a wrong one":    {tls: true, login: "user:wrong-password@", message: "requires a login", next: "add user and password to proxy"},
		"tls, and it may not":      {tls: true, login: login + "@", refusal: 403, message: "does not connect to vendor.invalid: it answered 403", next: "check proxy"},
		"tls, and it knows no way": {tls: true, login: login + "@", refusal: 502, message: "does not connect to vendor.invalid: it answered 502", next: "check proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var answers []vendors.Answer
			if tc.message == "" {
				answers = append(answers, allIsWell)
			}
			s := vendors.New(t, "anthropic", answers...)
			h := httptest.NewServer(s)
			url := "http://vendor.invalid"
			if tc.tls {
				cert, key := certificate(t, ca, &x509.Certificate{DNSNames: []string{"vendor.invalid"}})
				h.Close()
				h, url = secure(t, s, cert, key), "https://vendor.invalid"
			}
			t.Cleanup(h.Close)
			p := newProxy(t, h, login, tc.refusal)
			address := strings.Replace(p.URL, "://", "://"+tc.login, 1)
			r := rig.New(t, "")
			how := `  proxy = "` + address + `"`
			if tc.environment {
				how = "  env {\n    HTTPS_PROXY = \"" + address + "\"\n  }"
			}
			useVendor(r, "anthropic", url, how, `  ca_file = "`+ca.file+`"`, "  retries = 0")
			o := ask(t, r)
			if strings.Contains(o.stdout+o.stderr, "s3cret-of-the-office") {
				t.Errorf("the proxy's password was printed:\n%s", o.stderr)
			}
			if tc.message != "" {
				o.failed(t, "transport", tc.message, tc.next)
				return
			}
			o.went(t, 0, "")
			if tunnels := p.tunnels.Load() > 0; tunnels != tc.tls || !tunnels && p.requests.Load() != 1 {
				t.Errorf("%d tunnels, %d requests through the proxy", p.tunnels.Load(), p.requests.Load())
			}
		})
	}
}
