package wire_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/wire"
)

func TestHelloRoundTrip(t *testing.T) {
	server, _, err := wire.NewMaterials()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []wire.Hello{
		{Token: "t0ken", Transport: wire.TransportPeer},
		{Token: "t0ken", Transport: wire.TransportTLS, TLS: server},
	} {
		var b bytes.Buffer
		if err := wire.WriteHello(&b, h); err != nil {
			t.Fatal(err)
		}
		b.WriteString("rest")
		r := bufio.NewReaderSize(&b, 16) // smaller than the line
		got, err := wire.ReadHello(r)
		if err != nil || !reflect.DeepEqual(got, h) {
			t.Fatalf("got %v, %v, want %v", got, err, h)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "rest" {
			t.Fatalf("left behind the line: %q", rest)
		}
	}
}

func TestReadHelloRefuses(t *testing.T) {
	tests := map[string]string{
		"nothing":           "",
		"no end":            `{"token":"secret"}`,
		"not JSON":          "secret\n",
		"no token":          `{"transport":"peercred"}` + "\n",
		"unknown transport": `{"token":"secret","transport":"tcp"}` + "\n",
		"mtls without keys": `{"token":"secret","transport":"mtls"}` + "\n",
		"too long":          `{"token":"` + strings.Repeat("secret", 20<<10) + `"}` + "\n",
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := wire.ReadHello(bufio.NewReader(strings.NewReader(in)))
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error quotes the line: %v", err)
			}
		})
	}
	if h, err := wire.ReadHello(bufio.NewReader(strings.NewReader(`{"token":"x","future":1}` + "\n"))); err != nil || h.Transport != wire.TransportPeer {
		t.Errorf("hello with an unknown field and no transport: %v, %v", h, err)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	m := &wire.Material{CA: "secret", Cert: "secret", Key: "secret"}
	h := wire.Hello{Token: "secret", Transport: wire.TransportTLS, TLS: m}
	for _, v := range []any{h, &h, m, wire.Token("secret")} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, "secret") {
				t.Errorf("%s of %T prints %q", verb, v, s)
			}
		}
	}
}

func FuzzReadHello(f *testing.F) {
	f.Add([]byte(`{"token":"t","transport":"peercred"}` + "\nrest"))
	f.Add([]byte(`{"token":"t","transport":"mtls","tls":{"ca":"a","cert":"b","key":"c"}}` + "\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := wire.ReadHello(bufio.NewReader(bytes.NewReader(in)))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := wire.WriteHello(&b, h); err != nil {
			t.Fatalf("%q was read as what can't be written: %v", in, err)
		}
		if again, err := wire.ReadHello(bufio.NewReader(&b)); err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("%q does not read back: %v", in, err)
		}
	})
}
