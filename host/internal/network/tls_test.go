package network_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/network"
)

// slowly writes one byte at a time.
type slowly struct{ net.Conn }

func (s slowly) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := s.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// hello is what a TLS client says first. The text after it stays with who reads it.
func hello(t testing.TB, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	var said bytes.Buffer
	go func() { // ends with its side of the pipe, which is closed below
		_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		client.Close()
	}()
	buf := make([]byte, 16<<10)
	n, err := server.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	said.Write(buf[:n])
	server.Close()
	return said.Bytes()
}

// The name in a tunnel's TLS is the host that was judged, or nothing goes out. The origin speaks no TLS: that it says so means that it
// was reached.
func TestNamesInTunnels(t *testing.T) {
	t.Parallel()
	rules := open(t)
	rules.Allow = append(rules.Allow, patterns(t, "93.184.216.50")...)
	garbage := append([]byte{22, 3, 1, 0, 4}, "abcd"...)
	two := bytes.Replace(hello(t, "open.test"), []byte("open.test"), []byte("oben.test"), 1)
	for _, tc := range []struct {
		name, host string
		say        []byte
		cut        bool
		told       string
	}{
		{"the host", "open.test", hello(t, "open.test"), false, ""},
		{"the host, in capitals", "open.test", hello(t, "OPEN.test"), false, ""},
		{"another host", "open.test", hello(t, "evil.test"), true, "evil.test"},
		{"another host that is allowed itself", "open.test", hello(t, "www.open.test"), true, "www.open.test"},
		{"a name that is nearly it", "open.test", two, true, "oben.test"},
		{"no name for a name", "open.test", hello(t, ""), true, ""},
		{"no name for an address", "93.184.216.50", hello(t, ""), false, ""},
		{"a name for an address", "93.184.216.50", hello(t, "evil.test"), true, "evil.test"},
		{"an alert first", "open.test", slices.Concat([]byte{21, 3, 1, 0, 2, 1, 90}, hello(t, "evil.test")), true, ""},
		{"a fatal alert first", "open.test", slices.Concat([]byte{21, 3, 1, 0, 2, 2, 40}, hello(t, "evil.test")), true, ""},
		{"an alert before the host", "open.test", slices.Concat([]byte{21, 3, 1, 0, 2, 1, 90}, hello(t, "open.test")), true, ""},
		{"an empty alert", "open.test", slices.Concat([]byte{21, 3, 1, 0, 0}, hello(t, "evil.test")), true, ""},
		{"a change of the cipher first", "open.test", slices.Concat([]byte{20, 3, 3, 0, 1, 1}, hello(t, "evil.test")), true, ""},
		{"data first", "open.test", slices.Concat([]byte{23, 3, 3, 0, 1, 1}, hello(t, "evil.test")), true, ""},
		{"a heartbeat first", "open.test", slices.Concat([]byte{24, 3, 3, 0, 1, 1}, hello(t, "evil.test")), true, ""},
		{"what can't be read", "open.test", garbage, true, ""},
		{"no TLS", "open.test", []byte("SSH-2.0-x\r\n\r\n"), false, ""},
		{"nothing", "open.test", nil, false, ""},
	} {
		for _, way := range []string{"CONNECT", "SOCKS5", "slowly"} {
			t.Run(tc.name+", "+way, func(t *testing.T) {
				t.Parallel()
				w := begin(t, rules, nil)
				conn, err := net.Dial("tcp", w.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if way == "SOCKS5" {
					fmt.Fprintf(conn, "\x05\x01\x00\x05\x01\x00\x03%c%s\x01\xbb", len(tc.host), tc.host)
					answer := make([]byte, 12)
					if _, err := io.ReadFull(conn, answer); err != nil || answer[3] != 0 {
						t.Fatalf("%x, %v", answer, err)
					}
				} else {
					fmt.Fprintf(conn, "CONNECT %s:443 HTTP/1.1\r\nHost: %[1]s:443\r\n\r\n", tc.host)
					answer := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
					if _, err := io.ReadFull(conn, answer); err != nil || !strings.Contains(string(answer), " 200 ") {
						t.Fatalf("%q, %v", answer, err)
					}
				}
				out := conn
				if way == "slowly" {
					out = slowly{conn}
				}
				_, _ = out.Write(tc.say)
				if !tc.cut {
					_ = conn.(*net.TCPConn).CloseWrite()
				}
				got, err := io.ReadAll(conn) // who is cut off hears it without having ended
				if err != nil {
					t.Fatal(err)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				said := strings.Join(w.said, "\n")
				if tc.cut {
					if !bytes.Equal(got, []byte{21, 3, 3, 0, 2, 2, 112}) || !strings.Contains(said, strings.TrimSpace(network.NameMismatch+" false "+tc.told)) {
						t.Errorf("%q; told %s", got, said)
					}
					return
				}
				if tc.say != nil && !strings.Contains(string(got), "400 Bad Request") || strings.Contains(said, network.NameMismatch) {
					t.Errorf("the origin was not reached: %q; told %s", got, said)
				}
			})
		}
	}
}

// Reading a name ends, and finds only one that stands there.
func FuzzServerName(f *testing.F) {
	f.Add(hello(f, "open.test"))
	f.Add(hello(f, ""))
	f.Add([]byte{22, 3, 1, 0, 4, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, said []byte) {
		name, err := network.ServerName(t.Context(), bytes.NewReader(said))
		if err != nil && name != "" {
			t.Errorf("%q, %v", name, err)
		}
		if !bytes.Contains(said, []byte(name)) && len(name) < 200 { // a longer one may be cut by records
			t.Errorf("%q is not in %q", name, said)
		}
	})
}
