package protocoltest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
)

var update = flag.Bool("update", false, "write the golden bodies anew")

// Golden compares the body of a request with testdata/NAME.json, which -update writes. Both are indented; the order of keys
// matters, because vendors' prompt caches compare bytes.
func Golden(t testing.TB, name string, p protocol.Protocol, req *protocol.Request) {
	t.Helper()
	body, err := p.Body(req)
	if err != nil {
		t.Fatalf("%s: body: %v", p.ID(), err)
	}
	GoldenBody(t, name, body)
}

// GoldenBody is like [Golden] for an existing body.
func GoldenBody(t testing.TB, name string, body []byte) {
	t.Helper()
	got := Indented(t, body)
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is sent now; go test -update writes it anew.\n%s", path, firstDifference(string(want), string(got)))
	}
}

// Indented returns an indented body.
func Indented(t testing.TB, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		t.Fatalf("the body is not JSON: %v\n%s", err, body)
	}
	b.WriteByte('\n')
	return b.Bytes()
}
