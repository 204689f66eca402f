package environment

import (
	"slices"
	"strings"
	"testing"
)

func TestBuild(t *testing.T) {
	host := func(k string) (string, bool) {
		v, ok := map[string]string{
			"FOO": "fromhost", "SECRET_KEY": "s3", "PATH": "/usr/bin", "LC_ALL": "C", "TZ": "UTC", "TMPDIR": "/t", "HOME": "/h",
			"PLUGIN_CLIENT_CERT": "x", "GOMEMLIMIT": "1", "CI": "true",
		}[k]
		return v, ok
	}
	c := Config{
		Block:     map[string]string{"FOO": "fromcmd", "LC_ALL": "de_DE.UTF-8"},
		SocketDir: "/run/g/plugin-dir1", Lifeline: 3,
	}
	want := []string{
		"CI=true", "FOO=fromcmd", "GANTRY_LIFELINE_FD=3", "GANTRY_PLUGIN=b7c1f0e2-5d0a-4c36-9a4e-6f1c8d92e5aa", "LC_ALL=de_DE.UTF-8",
		"PATH=/usr/bin", "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR=/run/g/plugin-dir1", "TMPDIR=/t", "TZ=UTC",
	}
	if got := c.Build(host); !slices.Equal(got, want) {
		t.Errorf("environment:\n got %q\nwant %q", got, want)
	}
	c.MemoryBytes = 100 << 20
	if got := c.Build(host); !slices.Contains(got, "GOMEMLIMIT=94371840") {
		t.Errorf("environment with a memory limit: %q", got)
	}
	c.Block["GOMEMLIMIT"] = "1GiB"
	if got := c.Build(host); !slices.Contains(got, "GOMEMLIMIT=1GiB") {
		t.Errorf("a limit in the block is overwritten: %q", got)
	}
}

func TestCheck(t *testing.T) {
	loaders := strings.Fields("PATH LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES PYTHONPATH PYTHONHOME NODE_OPTIONS RUBYOPT CLASSPATH GOROOT BASH_ENV ENV ld_preload")
	for _, k := range loaders {
		env := map[string]string{"FINE": "1", k: "x"}
		if err := Check(env, false); err == nil || !strings.Contains(err.Error(), k) || !strings.Contains(err.Error(), "unsafe_env") {
			t.Errorf("%s: %v", k, err)
		}
		if err := Check(env, true); err != nil {
			t.Errorf("%s with unsafe_env: %v", k, err)
		}
	}
	for _, k := range strings.Fields("GANTRY_PLUGIN GANTRY_LIFELINE_FD PLUGIN_UNIX_SOCKET_DIR PLUGIN_PROTOCOL_VERSIONS PLUGIN_CLIENT_CERT plugin_multiplex_grpc") {
		if err := Check(map[string]string{k: "x"}, true); err == nil || !strings.Contains(err.Error(), "set by the host") {
			t.Errorf("%s: %v", k, err)
		}
	}
	for _, env := range []map[string]string{{"": "x"}, {"A=B": "x"}, {"A": "x\x00y"}, {"A\x00": "x"}} {
		if err := Check(env, true); err == nil {
			t.Errorf("%q was accepted", env)
		}
	}
	if err := Check(map[string]string{"FOO": "1", "LDFLAGS": "x", "ENVIRONMENT": "y", "HOME": "/h"}, false); err != nil {
		t.Error(err)
	}
}
