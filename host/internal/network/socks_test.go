package network

import (
	"bytes"
	"io"
	"net/netip"
	"testing"
)

// Whatever a client says, it is read without a crash, no further than its end, and a host is never longer than its length.
func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x09open.test\x00\x50rest"))
	f.Add([]byte("\x05\x02\x02\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x01\xbb"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\xbb"))
	f.Fuzz(func(t *testing.T, said []byte) {
		in := bytes.NewReader(said)
		if readGreeting(in) != nil {
			return
		}
		host, port, err := readRequest(in)
		if err != nil {
			if host != "" || port != 0 {
				t.Errorf("%q and port %d beside %v", host, port, err)
			}
			return
		}
		rest, _ := io.ReadAll(in)
		if !bytes.HasSuffix(said, rest) || len(host) > 255 {
			t.Errorf("host %q, rest %q", host, rest)
		}
		if a, err := netip.ParseAddr(host); err == nil && bracketed(host) != "["+a.String()+"]" && bracketed(host) != "["+host+"]" {
			t.Errorf("%q becomes %q", host, bracketed(host))
		}
	})
}
