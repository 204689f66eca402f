package transport

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
)

// Kind is how clients reach a server.
type Kind int

// The kinds of an [Address].
const (
	Unknown Kind = iota
	Stdio        // one client, at the other end of stdin and stdout
	Unix         // websocket over a unix socket
	TCP          // websocket over TCP
	Off          // not at all
	Passed       // one client, at the other end of a connected socket that the parent has passed on
)

// String returns the name of a kind, which is its scheme in a URL.
func (k Kind) String() string {
	switch k {
	case Stdio:
		return "stdio"
	case Unix:
		return "unix"
	case TCP:
		return "ws"
	case Off:
		return "off"
	case Passed:
		return "fd"
	}
	return fmt.Sprintf("kind %d", int(k))
}

// Address is where a server listens.
type Address struct {
	Kind Kind
	Path string         // of a unix socket; "": the control socket, see [ControlSocket]
	TCP  netip.AddrPort // port 0: the system chooses one
	FD   int            // of a socket that was passed on
}

// DefaultURL is the URL of an address that is not specified.
const DefaultURL = "stdio://"

// forms lists the URLs that ParseListen accepts.
const forms = "use stdio://, unix://, unix://PATH, ws://IP:PORT, fd://N or off"

// ParseListen parses the value of --listen: stdio://, unix:// for the control socket, unix://PATH, ws://IP:PORT with an IP address
// and not a host name, fd://N, or off. A relative PATH is relative to the current directory. Errors have a next step and are usage errors.
func ParseListen(url string) (Address, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	switch {
	case url == "off":
		return Address{Kind: Off}, nil
	case !ok:
		return Address{}, hint.New("not a URL", forms)
	case scheme == "stdio" && rest == "":
		return Address{Kind: Stdio}, nil
	case scheme == "stdio":
		return Address{}, hint.New("stdio:// takes no address", "use stdio://")
	case scheme == "unix":
		return parseUnix(rest)
	case scheme == "fd":
		return parseFD(rest)
	case scheme == "ws":
		return parseTCP(rest)
	case scheme == "wss":
		return Address{}, hint.New("TLS is not supported", "listen on ws://127.0.0.1:PORT behind a proxy that terminates TLS")
	}
	return Address{}, hint.New(fmt.Sprintf("unknown scheme %q", scheme), forms)
}

func parseUnix(path string) (Address, error) {
	if path == "" {
		return Address{Kind: Unix}, nil
	}
	if strings.ContainsRune(path, 0) {
		return Address{}, hint.New("the path contains a zero byte", "use unix://PATH with the path of a file")
	}
	if strings.HasSuffix(path, "/") || filepath.Base(path) == "." || filepath.Base(path) == ".." {
		return Address{}, hint.New("the path is that of a directory", "add a file name to the path")
	}
	return Address{Kind: Unix, Path: path}, nil
}

func parseFD(number string) (Address, error) {
	fd, err := strconv.ParseUint(number, 10, 16)
	if err != nil || fd <= 2 {
		return Address{}, hint.New(fmt.Sprintf("%q is not the number of a passed socket", number), "use fd://N with a number above 2")
	}
	return Address{Kind: Passed, FD: int(fd)}, nil
}

func parseTCP(address string) (Address, error) {
	a, err := netip.ParseAddrPort(address)
	if err == nil {
		return Address{Kind: TCP, TCP: netip.AddrPortFrom(a.Addr().Unmap(), a.Port())}, nil
	}
	const form = "use ws://IP:PORT, for example ws://127.0.0.1:4500, or port 0 for any free port"
	host, port, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		return Address{}, hint.New("not an IP address and a port", form)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return Address{}, hint.New(fmt.Sprintf("invalid port %q", port), form)
	}
	return Address{}, hint.New(fmt.Sprintf("%q is not an IP address", host), form)
}

// String returns the URL of an address.
func (a Address) String() string {
	switch a.Kind {
	case Unix:
		return "unix://" + a.Path
	case TCP:
		return "ws://" + a.TCP.String()
	case Off:
		return "off"
	case Passed:
		return "fd://" + strconv.Itoa(a.FD)
	}
	return a.Kind.String() + "://"
}
