//go:build linux

package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

func asError(err error) (*plugin.Error, bool) { return errors.AsType[*plugin.Error](err) }

func TestAPluginIsStartedCalledAndStopped(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		for _, transport := range []string{"peercred", "mtls"} {
			t.Run(transport, func(t *testing.T) {
				h := build(t, configure)
				s := spec(t, "serve")
				s.Transport = transport
				p := h.add(s)
				l := acquire(t, p)
				if got := must(t, l, "echo", `{"a":1}`); got != `{"a":1}` {
					t.Errorf("echo = %s", got)
				}
				st := p.Status()
				if st.Mode != plugin.ModeReady || st.Generation != 1 || st.PID == 0 || st.Name != "under-test" || st.Usage.RSSBytes == 0 || st.Usage.PSSBytes == 0 {
					t.Errorf("status = %+v", st)
				}
				l.Release()
				if err := p.Stop(context.Background()); err != nil {
					t.Fatal(err)
				}
				gone(t, st.PID)
				left, _ := filepath.Glob(filepath.Join(h.dir, "h*", "plugin-dir*"))
				if len(left) > 0 {
					t.Errorf("folders are left: %v", left)
				}
				l = acquire(t, p)
				if l.Generation != 2 {
					t.Errorf("generation = %d", l.Generation)
				}
				l.Release()
			})
		}
	})
}

func TestWhatAPluginCanAccess(t *testing.T) {
	h := build(t, func(c *plugin.Config) {
		plugin.SetEnv(c, func(k string) (string, bool) {
			v, ok := map[string]string{"FOO": "fromhost", "SECRET_KEY": "s3", "PATH": "/bin", "LANG": "C", "HOME": "/root"}[k]
			return v, ok
		})
	})
	s := spec(t, "serve", "FOO=fromcmd")
	s.Limits.MemoryBytes = 100 << 20
	l := acquire(t, h.add(s))
	defer l.Release()

	var env []string
	if err := json.Unmarshal([]byte(must(t, l, "env", "")), &env); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		names = append(names, k)
		if k == "FOO" && v != "fromcmd" {
			t.Errorf("FOO = %q", v)
		}
	}
	want := "FOO GANTRY_LIFELINE_FD GANTRY_PLUGIN GOMEMLIMIT GORACE LANG PATH PLUGIN_PROTOCOL_VERSIONS PLUGIN_UNDER_TEST PLUGIN_UNIX_SOCKET_DIR"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("environment:\n got %s\nwant %s", got, want)
	}
	if got := must(t, l, "stdin", ""); got != `"0 EOF"` {
		t.Errorf("stdin = %s", got)
	}
	var fds []string
	if err := json.Unmarshal([]byte(must(t, l, "fds", "")), &fds); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(fds, ","); got != "0 /dev/null,1 pipe,2 pipe,3 pipe" {
		t.Errorf("descriptors = %s", got)
	}
}
