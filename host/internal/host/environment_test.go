package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// Client context is stored by key, truncated and limited, and survives a resume.
func TestClientContext(t *testing.T) {
	r := &running{}
	r.restore(&event.Reference{Sections: map[string]string{"external/file": "a.go", "external/page": "one"}})
	r.setClientContext(map[string]string{"file": "b.go", "page": "", "long": strings.Repeat("x", 8000), "bad": "a\xffb"})
	if len(r.external) != 3 || r.external["file"] != "b.go" || r.external["bad"] != "a\uFFFDb" {
		t.Errorf("%.200q", r.external)
	}
	if long := r.external["long"]; len(long) > 4100 || !strings.Contains(long, "truncated") || !strings.HasPrefix(long, "x") || !strings.HasSuffix(long, "x") {
		t.Errorf("%d bytes: %.30q", len(long), long)
	}
	for i := range 2 * maxExternal {
		r.setClientContext(map[string]string{fmt.Sprint("more", i): "x"})
	}
	r.setClientContext(map[string]string{"file": "c.go"})
	if len(r.external) != maxExternal || r.external["file"] != "c.go" {
		t.Errorf("%d texts, file %q", len(r.external), r.external["file"])
	}
}

func TestEnvironment(t *testing.T) {
	if e := environment("/w", "read-only", &config.Config{}); e.Network != "disabled" || e.Filesystem != "read-only" || e.Timezone == "" || e.Timezone == "Local" {
		t.Errorf("%+v", e)
	}
	if e := environment("/w", "read-only", &config.Config{Sandbox: config.Sandbox{Network: true}}); e.Network != "enabled" {
		t.Errorf("%+v", e)
	}
	if e := environment("/w", "full-access", &config.Config{}); e.Network != "enabled" {
		t.Errorf("%+v", e)
	}
}
