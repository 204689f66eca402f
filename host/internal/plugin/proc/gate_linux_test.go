package proc

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// A library hands over an address whose end was never written. What is logged is the path, once.
func TestRefusedAddressesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	g := newGate(nil, &Sandbox{}, hclog.New(&hclog.LoggerOptions{Output: &out}))
	g.logRefused([]byte("/run/nscd\x00junk"))
	g.logRefused([]byte("/run/nscd\x00other"))
	g.logRefused([]byte("\x00abstract\x00name"))
	if s := out.String(); strings.Count(s, "/run/nscd") != 1 || strings.Contains(s, "junk") || !strings.Contains(s, "abstract") {
		t.Error(s)
	}
}
