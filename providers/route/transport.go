package route

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/gantry-agent/gantry/providers/redact"
)

// Transport says how to reach a vendor and how long to wait for it. Of the durations 0 is the default and what is below 0
// is without end.
type Transport struct {
	// Proxy is the address of one, http, https or socks5. Empty: what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say. "none": no
	// proxy whatever they say.
	Proxy  string
	CAFile string // PEM certificates of authorities to trust beside those of the system

	HeaderTimeout time.Duration // from sending until the answer begins; 5 min
	IdleTimeout   time.Duration // of silence inside an answer; 5 min
	AnswerTimeout time.Duration // for a whole answer, however lively; 2 h
	MaxDelay      time.Duration // longest wait that a vendor may ask for before the next try; 10 min
	MaxAnswer     int64         // bytes of one answer; 256 MiB

	// Around stands around the connections, or in their place, and sees each request as it is sent. An *[llm.Error] that it
	// returns is passed on as it is. Nil: nothing does.
	Around func(http.RoundTripper) http.RoundTripper
}

const (
	defaultTimeout  = 5 * time.Minute
	defaultAnswer   = 2 * time.Hour // models have been seen to think for most of an hour
	defaultMaxDelay = 10 * time.Minute
	// defaultMaxAnswer is some hundred times the longest answer that a model gives. Beyond it a server repeats itself.
	defaultMaxAnswer = 256 << 20

	connectTimeout = 30 * time.Second
	tlsTimeout     = 15 * time.Second
	// A request takes minutes in which nothing may be sent: without pings a dead connection is not noticed before its
	// timeout.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
	idleConn    = 90 * time.Second
	// maxIdleConns is how many HTTP/1 connections stay for the next requests; agents ask side by side.
	maxIdleConns   = 16
	maxHeaderBytes = 256 << 10 // of an answer's head; beyond it net/http refuses
	readBuffer     = 32 << 10
)

// forever stands for a timeout that is switched off.
const forever = 100 * 365 * 24 * time.Hour

func (t Transport) withDefaults() Transport {
	or := func(d, otherwise time.Duration) time.Duration {
		if d < 0 {
			return forever
		}
		return cmp.Or(d, otherwise)
	}
	t.HeaderTimeout = or(t.HeaderTimeout, defaultTimeout)
	t.IdleTimeout = or(t.IdleTimeout, defaultTimeout)
	t.AnswerTimeout = or(t.AnswerTimeout, defaultAnswer)
	t.MaxDelay = or(t.MaxDelay, defaultMaxDelay)
	if t.MaxAnswer <= 0 {
		t.MaxAnswer = defaultMaxAnswer
	}
	return t
}

// connections is a pool of them with what stands around it.
type connections struct {
	*http.Transport
	around http.RoundTripper // nil: nothing
}

// RoundTrip implements [http.RoundTripper].
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.around != nil {
		return c.around.RoundTrip(r)
	}
	return c.Transport.RoundTrip(r)
}

// open makes the connections' pool.
func (t Transport) open() (*connections, error) {
	proxy, err := t.proxy()
	if err != nil {
		return nil, err
	}
	conf, err := t.tls()
	if err != nil {
		return nil, err
	}
	c := &connections{Transport: &http.Transport{
		Proxy:                  proxy,
		OnProxyConnectResponse: onProxyConnect,
		DialContext:            (&net.Dialer{Timeout: connectTimeout, KeepAlive: pingAfter}).DialContext,
		TLSClientConfig:        conf,
		TLSHandshakeTimeout:    tlsTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:     true, // events would wait for their block of it
		MaxIdleConnsPerHost:    maxIdleConns,
		IdleConnTimeout:        idleConn,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ReadBufferSize:         readBuffer,
		WriteBufferSize:        readBuffer,
	}}
	if t.Around != nil {
		c.around = t.Around(c.Transport)
	}
	return c, nil
}

func (t Transport) proxy() (func(*http.Request) (*url.URL, error), error) {
	switch t.Proxy {
	case "":
		return http.ProxyFromEnvironment, nil
	case "none":
		return nil, nil
	}
	var hidden redact.Redactor
	u, err := url.Parse(t.Proxy)
	if err != nil {
		return nil, &ConfigError{"proxy", "proxy can't be read: write it as http://HOST:PORT"}
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
	default:
		return nil, &ConfigError{
			"proxy", fmt.Sprintf("proxy %q is of no known kind: write it as http://HOST:PORT, https://… or socks5://…", hidden.URL(t.Proxy)),
		}
	}
	if u.Host == "" {
		return nil, &ConfigError{"proxy", fmt.Sprintf("proxy %q has no host: write it as %s://HOST:PORT", hidden.URL(t.Proxy), u.Scheme)}
	}
	return http.ProxyURL(u), nil
}

func (t Transport) tls() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, &ConfigError{"ca_file", fmt.Sprintf("ca_file can't be read: %v", err)}
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without authorities of its own
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, &ConfigError{"ca_file", fmt.Sprintf("ca_file %s holds no certificate in PEM form", t.CAFile)}
	}
	conf.RootCAs = pool
	return conf, nil
}
