package transport

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/hint"
	"pgregory.net/rapid"
)

func TestParseListen(t *testing.T) {
	t.Parallel()
	tcp := func(s string) Address { return Address{Kind: TCP, TCP: netip.MustParseAddrPort(s)} }
	for url, want := range map[string]Address{
		"stdio://":                     {Kind: Stdio},
		"off":                          {Kind: Off},
		"unix://":                      {Kind: Unix},
		"unix:///run/a.sock":           {Kind: Unix, Path: "/run/a.sock"},
		"unix://a.sock":                {Kind: Unix, Path: "a.sock"},
		"unix://./dir with blank/a":    {Kind: Unix, Path: "./dir with blank/a"},
		"unix://a://b":                 {Kind: Unix, Path: "a://b"},
		"ws://127.0.0.1:4500":          tcp("127.0.0.1:4500"),
		"ws://127.0.0.1:0":             tcp("127.0.0.1:0"),
		"ws://0.0.0.0:65535":           tcp("0.0.0.0:65535"),
		"ws://[::1]:4500":              tcp("[::1]:4500"),
		"ws://[::ffff:127.0.0.1]:4500": tcp("127.0.0.1:4500"),
		"ws://[fe80::1%eth0]:1":        tcp("[fe80::1%eth0]:1"),
	} {
		if got, err := ParseListen(url); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", url, got, err, want)
		}
	}
	for url, want := range map[string]string{
		"":                      "not a URL",
		"stdio":                 "not a URL",
		"OFF":                   "not a URL",
		"127.0.0.1:4500":        "not a URL",
		"stdio://x":             "takes no address",
		"off://":                `unknown scheme "off"`,
		"http://127.0.0.1:4500": `unknown scheme "http"`,
		"://x":                  `unknown scheme ""`,
		"WS://127.0.0.1:4500":   `unknown scheme "WS"`,
		"wss://127.0.0.1:4500":  "TLS is not supported",
		"ws://":                 "not an IP address and a port",
		"ws://127.0.0.1":        "not an IP address and a port",
		"ws://::1:4500":         "not an IP address and a port",
		"ws://localhost:4500":   `"localhost" is not an IP address`,
		"ws://example.com:0":    `"example.com" is not an IP address`,
		"ws://:4500":            `"" is not an IP address`,
		"ws://127.1:4500":       `"127.1" is not an IP address`,
		"ws://127.0.0.1:":       `invalid port ""`,
		"ws://127.0.0.1:65536":  `invalid port "65536"`,
		"ws://127.0.0.1:-1":     `invalid port "-1"`,
		"ws://127.0.0.1:4500/":  `invalid port "4500/"`,
		"ws://127.0.0.1:http":   `invalid port "http"`,
		"unix:///run/":          "that of a directory",
		"unix://.":              "that of a directory",
		"unix://a/..":           "that of a directory",
		"unix://a\x00b":         "zero byte",
	} {
		_, err := ParseListen(url)
		if err == nil {
			t.Errorf("%q is accepted", url)
			continue
		}
		if message, next := hint.Split(err); !strings.Contains(message, want) || next == "" {
			t.Errorf("%q: %q, next %q, want %q", url, message, next, want)
		}
	}
}

// What ParseListen accepts, String writes in a form that means the same.
func FuzzParseListen(f *testing.F) {
	for _, seed := range []string{"stdio://", "off", "unix://", "unix://a b", "ws://127.0.0.1:0", "ws://[::1%25x]:1", "ws://localhost:1", "://", "unix:///\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, url string) {
		a, err := ParseListen(url)
		if err != nil {
			if _, next := hint.Split(err); next == "" {
				t.Errorf("%q: no next step: %v", url, err)
			}
			return
		}
		if a.Kind == TCP && !a.TCP.IsValid() || a.Kind != Unix && a.Path != "" || a.Kind == Unknown {
			t.Errorf("%q: %+v", url, a)
		}
		if again, err := ParseListen(a.String()); err != nil || again != a {
			t.Errorf("%q: %+v is written as %q, which is %+v, %v", url, a, a, again, err)
		}
	})
}

func TestAddressSurvivesString(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ip, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "ip"))
		if rapid.Bool().Draw(t, "v4") {
			b := ip.As16()
			ip, _ = netip.AddrFromSlice(b[:4])
		}
		want := Address{Kind: TCP, TCP: netip.AddrPortFrom(ip.Unmap(), rapid.Uint16().Draw(t, "port"))}
		if got, err := ParseListen(want.String()); err != nil || got != want {
			t.Fatalf("%s: %+v, %v", want, got, err)
		}
	})
}
