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

// Transport configures connections and timeouts. For durations, 0 is the default and a negative value means no limit.
type Transport struct {
	// Proxy is the address of an http, https or socks5 proxy. Empty: use HTTPS_PROXY, HTTP_PROXY and NO_PROXY. "none": no proxy.
	Proxy  string
	CAFile string // PEM certificates of authorities to trust in addition to the system's

	HeaderTimeout time.Duration // from sending until the response begins; default 5 min
	IdleTimeout   time.Duration // of silence within a response; default 5 min
	AnswerTimeout time.Duration // for a whole response; default 2 h
	MaxDelay      time.Duration // maximum delay that a vendor may request before the next attempt; default 10 min
	MaxAnswer     int64         // bytes of a response; default 256 MiB

	// Around wraps or replaces the connections, and sees each request as it is sent. An *[llm.Error] that it returns is passed on
	// unchanged. Nil: no wrapper.
	Around func(http.RoundTripper) http.RoundTripper
}

const (
	defaultTimeout  = 5 * time.Minute
	defaultAnswer   = 2 * time.Hour // models may think for most of an hour
	defaultMaxDelay = 10 * time.Minute
	// defaultMaxAnswer is several hundred times the longest real response: beyond it, the server repeats itself.
	defaultMaxAnswer = 256 << 20

	connectTimeout = 30 * time.Second
	tlsTimeout     = 15 * time.Second
	// During a request there may be minutes without traffic: without pings, a dead connection is only noticed after its timeout.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
	idleConn    = 90 * time.Second
	// maxIdleConns is how many idle HTTP/1 connections are kept; agents send concurrent requests.
	maxIdleConns   = 16
	maxHeaderBytes = 256 << 10 // of a response's headers; beyond it net/http returns an error
	readBuffer     = 32 << 10
)

// forever stands for a disabled timeout.
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

// connections is a connection pool with its wrapper.
type connections struct {
	*http.Transport
	around http.RoundTripper // nil: none
}

// RoundTrip implements [http.RoundTripper].
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.around != nil {
		return c.around.RoundTrip(r)
	}
	return c.Transport.RoundTrip(r)
}

// open creates the connection pool.
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
		DisableCompression:     true, // compressed events would be delayed until their block is complete
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
			"proxy", fmt.Sprintf("proxy %q is of an unknown kind: write it as http://HOST:PORT, https://… or socks5://…", hidden.URL(t.Proxy)),
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
		pool = x509.NewCertPool() // a machine without its own authorities
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, &ConfigError{"ca_file", fmt.Sprintf("ca_file %s contains no PEM certificate", t.CAFile)}
	}
	conf.RootCAs = pool
	return conf, nil
}
