package route

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// secure is a server with a certificate for host, and the file of the authority that signed it.
func secure(t *testing.T, h http.HandlerFunc, host string, from, to time.Time) (s *httptest.Server, caFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if ip := net.ParseIP(host); ip != nil {
		cert.IPAddresses = []net.IP{ip}
	} else {
		cert.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	s = httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, caFile
}

// listening answers every connection with some bytes and closes it.
func listening(t *testing.T, says string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadByte()
			_, _ = io.WriteString(c, says)
			_ = c.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// nobody is an address that refuses connections.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestNoConnection(t *testing.T) {
	now := time.Now()
	day := 24 * time.Hour
	good, goodCA := secure(t, answerWith("x"), "127.0.0.1", now.Add(-day), now.Add(day))
	old, oldCA := secure(t, answerWith("x"), "127.0.0.1", now.Add(-9*day), now.Add(-day))
	early, earlyCA := secure(t, answerWith("x"), "127.0.0.1", now.Add(day), now.Add(9*day))
	other, otherCA := secure(t, answerWith("x"), "other.test", now.Add(-day), now.Add(day))
	picky, pickyCA := secure(t, answerWith("x"), "127.0.0.1", now.Add(-day), now.Add(day))
	// TLS 1.2 refuses inside the handshake; with 1.3 the refusal and the first request cross.
	picky.TLS.ClientAuth, picky.TLS.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
	closed := nobody(t)
	dial := func(err error) func(*Route) {
		return func(r *Route) {
			r.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
			}
		}
	}
	tests := []struct {
		name, base string
		transport  Transport
		change     func(*Route)
		want, next string
		retry      bool // the turn may
		tries      int
	}{
		{"refused", "http://" + closed, Transport{}, nil, closed + " refused the connection", "base_url", true, 2},
		{"no such host", "http://api.opnai.test", Transport{}, dial(&net.DNSError{Name: "api.opnai.test", IsNotFound: true, Err: "no such host"}),
			`no host named "api.opnai.test"`, "base_url", true, 1},
		{"names can't be looked up", "http://h.test", Transport{}, dial(&net.DNSError{Name: "h.test", Err: "server misbehaving", IsTemporary: true}),
			`"h.test" could not be looked up: server misbehaving`, "network", true, 2},
		{"no network", "http://h.test", Transport{}, dial(os.NewSyscallError("connect", syscall.ENETUNREACH)), "no route to h.test", "network", true, 2},
		{"no time", "http://h.test", Transport{}, dial(os.ErrDeadlineExceeded), "h.test did not accept the connection in time", "network", true, 2},
		{"unknown authority", good.URL, Transport{}, nil, "authority that is not trusted here", "ca_file", false, 1},
		{"other authority", good.URL, Transport{CAFile: otherCA}, nil, "authority that is not trusted here", "ca_file", false, 1},
		{"expired", old.URL, Transport{CAFile: oldCA}, nil, "expired on " + now.Add(-day).UTC().Format("2006-01-02"), "clock", false, 1},
		{"not yet valid", early.URL, Transport{CAFile: earlyCA}, nil, "not valid before " + now.Add(day).UTC().Format("2006-01-02"), "clock", false, 1},
		{"for another host", other.URL, Transport{CAFile: otherCA}, nil, "is for another host", "base_url", false, 1},
		{"wants a certificate", picky.URL, Transport{CAFile: pickyCA}, nil, "refused the TLS handshake", "base_url", false, 1},
		{"speaks HTTP", "https://" + listening(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), Transport{}, nil, "does not speak TLS", "http://", false, 1},
		{"speaks something else", "https://" + listening(t, "220 mail.test ESMTP\r\n"), Transport{}, nil, "does not speak TLS", "http://", false, 1},
		{"speaks no HTTP", "http://" + listening(t, "220 mail.test ESMTP\r\n"), Transport{}, nil, "failed: ", "base_url", true, 2},
		{"a head without end", "http://" + listening(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 300<<10)+"\r\n\r\n"), Transport{}, nil, "response headers exceeded", "", true, 2},
		{"proxy refuses", "http://h.test", Transport{Proxy: "http://" + closed}, nil, "the proxy " + closed + " refused the connection", "proxy", true, 2},
		{"tunnel refused", "https://h.test", Transport{Proxy: "http://u:pw-1234@" + closed}, nil, "the proxy " + closed + " refused the connection", "proxy", true, 2},
		{"socks refused", "https://h.test", Transport{Proxy: "socks5://" + closed}, nil, "the proxy " + closed + " refused the connection", "proxy", true, 2},
		{"proxy wants a login", "https://h.test", Transport{Proxy: "http://" + listening(t, "HTTP/1.1 407 Login Please\r\n\r\n")}, nil, "requires a login", "USER:PASSWORD", false, 1},
		{"proxy forbids", "https://h.test", Transport{Proxy: "http://" + listening(t, "HTTP/1.1 403 Not There\r\n\r\n")}, nil,
			"does not connect to h.test: it answered 403 Not There", "proxy", false, 1},
		{"proxy fails", "https://h.test", Transport{Proxy: "http://" + listening(t, "HTTP/1.1 502 Bad Gateway\r\n\r\n")}, nil, "it answered 502", "proxy", true, 2},
		{"proxy without a tunnel wants a login", "http://h.test", Transport{Proxy: "http://" + listening(t, "HTTP/1.1 407 Login Please\r\nContent-Length: 0\r\n\r\n")},
			nil, "the proxy on the way to h.test requires a login", "USER:PASSWORD", false, 1},
		{"speaks TLS only", "http://" + strings.TrimPrefix(good.URL, "https://"), Transport{}, nil, "HTTP request to an HTTPS server", "https://", false, 1},
		{"proxy's certificate", "https://h.test", Transport{Proxy: good.URL}, nil, "the certificate of the proxy ", "proxy", false, 1},
	}
	// Of these nobody was reached. All others met somebody, who would not do.
	offline := map[string]bool{
		"refused": true, "no such host": true, "names can't be looked up": true, "no network": true, "no time": true, "proxy refuses": true,
		"tunnel refused": true, "socks refused": true,
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // two tries take their 200 ms
			r := open(t, Config{BaseURL: tt.base, Transport: tt.transport})
			if tt.change != nil {
				tt.change(r)
			}
			var got told
			f := fault(t, r.Stream(t.Context(), request("m"), 2, got.emit))
			if !strings.Contains(f.Err.Message, tt.want) || !strings.Contains(f.Err.Next, tt.next) || strings.Contains(f.Err.Message, "pw-1234") {
				t.Errorf("message: %s\nnext: %s", f.Err.Message, f.Err.Next)
			}
			if f.Err.Status == 0 && f.Err.Code != llm.ErrTransport || f.Err.Retryable != tt.retry || len(got.attempts()) != tt.tries-1 {
				t.Errorf("%v, retryable %v, announced %v", f.Err.Code, f.Err.Retryable, got.attempts())
			}
			if f.URL != tt.base+"/answer" {
				t.Errorf("at %s", f.URL)
			}
			if want := offline[tt.name]; f.Err.Offline != want {
				t.Errorf("without a connection: %v, want %v", f.Err.Offline, want)
			}
		})
	}
	t.Run("with the authority's certificate", func(t *testing.T) {
		t.Parallel()
		var got told
		if err := open(t, Config{BaseURL: good.URL, Transport: Transport{CAFile: goodCA}}).Stream(t.Context(), request("m"), 1, got.emit); err != nil || got.text() != "x" {
			t.Errorf("%q, %v", got.text(), err)
		}
	})
}

func TestHTTP2(t *testing.T) {
	h, requests := inTurn(answerWith("a", "b"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"text\":\"c\"}\n\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, func(w http.ResponseWriter, r *http.Request) {
		answerWith("d")(w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done() // never ends by itself
	})
	conns := map[string]bool{}
	protos := map[string]bool{}
	s, ca := secure(t, func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr], protos[r.Proto] = true, true
		h(w, r)
	}, "127.0.0.1", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	r := open(t, Config{BaseURL: s.URL, Transport: Transport{CAFile: ca}})
	var got told
	if err := r.Stream(t.Context(), request("m"), 1, got.emit); err != nil || got.text() != "ab" {
		t.Errorf("%q, %v", got.text(), err)
	}
	f := fault(t, r.Stream(t.Context(), request("m"), 3, got.emit))
	if f.Err.Code != llm.ErrTransport || !f.Err.Retryable || got.text() != "abc" {
		t.Errorf("%q, %+v", got.text(), f.Err)
	}
	if err := r.Stream(t.Context(), request("m"), 3, got.emit); err != nil || got.text() != "abcd" {
		t.Errorf("%q, %v", got.text(), err)
	}
	if len(requests.all()) != 3 || len(conns) != 1 || !protos["HTTP/2.0"] || len(protos) != 1 {
		t.Errorf("%d requests over %v by %v", len(requests.all()), conns, protos)
	}
}

func TestThroughAProxy(t *testing.T) {
	target, ca := secure(t, answerWith("x"), "127.0.0.1", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	var tunnels []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			answerWith("from the proxy for "+r.URL.Host)(w, r)
			return
		}
		tunnels = append(tunnels, r.Host+" "+r.Header.Get("Proxy-Authorization"))
		there, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(502)
			return
		}
		defer there.Close()
		here, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = io.Copy(there, here)
			_ = there.Close()
		})
		_, _ = io.Copy(here, there)
		_ = here.Close()
		wg.Wait()
	}))
	defer proxy.Close()
	via := strings.Replace(proxy.URL, "http://", "http://u:p@", 1)

	var got told
	plain := open(t, Config{BaseURL: "http://h.test", Transport: Transport{Proxy: via}})
	if err := plain.Stream(t.Context(), request("m"), 1, got.emit); err != nil || got.text() != "from the proxy for h.test" {
		t.Errorf("%q, %v", got.text(), err)
	}
	got = told{}
	tunnel := open(t, Config{BaseURL: target.URL, Transport: Transport{Proxy: via, CAFile: ca}})
	err := tunnel.Stream(t.Context(), request("m"), 1, got.emit)
	if err != nil || got.text() != "x" || len(tunnels) != 1 || tunnels[0] != strings.TrimPrefix(target.URL, "https://")+" Basic dTpw" {
		t.Errorf("%q, %v, %v", got.text(), err, tunnels)
	}
	_ = tunnel.Close()
	got = told{}
	if _, err := (Transport{CAFile: "broken_test.go"}).Client(); err == nil {
		t.Error("made a client without its authority")
	}
	client, err := (Transport{Proxy: via, CAFile: ca}).Client()
	if err != nil {
		t.Fatal(err)
	}
	if res, err := client.Get(target.URL); err != nil || len(tunnels) != 2 {
		t.Errorf("client: %v, %v", err, tunnels)
	} else {
		_ = res.Body.Close()
	}
	client.CloseIdleConnections()
	direct := open(t, Config{BaseURL: target.URL, Transport: Transport{Proxy: "none", CAFile: ca}})
	if err := direct.Stream(t.Context(), request("m"), 1, got.emit); err != nil || len(tunnels) != 2 {
		t.Errorf("%v, %v", err, tunnels)
	}
}
