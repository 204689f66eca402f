// Package attach connects to a browser that somebody else has started. The plugin has no network, so the host starts the plugin's binary as a
// relay under the grant of a call, and that process passes messages on between the browser's web socket and the plugin's pipes.
//
// It owns: the address of a browser, the mode of the binary, and the relay. It must not know: the protocol, tabs, or which addresses may be
// reached, which the host's proxy decides.
//
// Start with [Parse] in the plugin and [Main] in that process.
package attach

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
)

// mode is the argument that makes the plugin's binary a relay.
const mode = "--attach"

// Argv returns the command line by which binary, whose main function calls [Main], becomes the relay.
func Argv(binary string) []string { return []string{binary, mode} }

// Wanted reports whether the command line is one of [Argv].
func Wanted(args []string) bool { return len(args) == 2 && args[1] == mode }

// Endpoint is the address of a browser.
type Endpoint struct{ url *url.URL }

// Parse parses an address: http or https, below which the browser says what its web socket is, or ws or wss, the web socket.
func Parse(text string) (Endpoint, error) {
	u, err := url.Parse(text)
	if err != nil { // which would show what may be a secret
		return Endpoint{}, errors.New("it is no URL")
	}
	if !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme) {
		return Endpoint{}, errors.New(`it must begin with "http://", "https://", "ws://" or "wss://"`)
	}
	if port, err := strconv.ParseUint(cmp.Or(u.Port(), defaultPort(u.Scheme)), 10, 16); u.Hostname() == "" || err != nil || port == 0 {
		return Endpoint{}, errors.New("it must have a host and a port")
	}
	return Endpoint{u}, nil
}

func defaultPort(scheme string) string {
	if scheme == "https" || scheme == "wss" {
		return "443"
	}
	return "80"
}

// Host returns the host and the port of the browser.
func (e Endpoint) Host() (host string, port uint32) {
	n, err := strconv.ParseUint(cmp.Or(e.url.Port(), defaultPort(e.url.Scheme)), 10, 16)
	if err != nil { // impossible: Parse has checked it
		panic("attach: port: " + err.Error())
	}
	return e.url.Hostname(), uint32(n)
}

// String returns the browser's host and port. The rest of the address may be a secret.
func (e Endpoint) String() string {
	host, port := e.Host()
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// Origins returns the origins of the endpoint itself, which no page may be opened from: they control the browser.
func (e Endpoint) Origins() []string {
	host, port := e.Host()
	names := []string{host}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		names = []string{"127.0.0.1", "localhost", "::1"}
	}
	var out []string
	for _, n := range names {
		for _, scheme := range []string{"http", "https"} {
			out = append(out, fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(n, strconv.Itoa(int(port)))))
		}
	}
	return out
}

// request is the first message to the relay.
type request struct {
	URL   string `json:"url"`
	Proxy string `json:"proxy"` // host and port of an HTTP proxy for all connections; empty: they are direct
}

// Greeting returns what the relay reads first. It is not part of the command line, which others can see.
func (e Endpoint) Greeting(proxy string) ([]byte, error) {
	b, err := json.Marshal(request{URL: e.url.String(), Proxy: proxy})
	return append(b, 0), err
}
