//go:build linux

package plugin_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// realCertificate is the certificate field of a handshake line with AutoMTLS. go-plugin's client crashes on one if it has no
// TLS configuration.
func realCertificate(t *testing.T) string {
	t.Helper()
	server, _, err := wire.NewMaterials()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(server.Cert))
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return base64.RawStdEncoding.EncodeToString(block.Bytes)
}

func TestHandshakes(t *testing.T) {
	cert := realCertificate(t)
	for name, c := range map[string]struct {
		mode    string
		env     []string
		phase   plugin.Phase // empty: it starts
		says    string       // part of the error
		printed string       // first line that it printed
	}{
		"good":                         {mode: "serve"},
		"socket outside the folder":    {"line", []string{"LINE=1|1|unix|/nonexist|grpc"}, "handshake", "not a socket in the folder", ""},
		"socket above the folder":      {"line", []string{"LINE=1|1|unix|{dir}/../p|grpc"}, "handshake", "not a socket in the folder", ""},
		"socket below the folder":      {"line", []string{"LINE=1|1|unix|{dir}/a/p|grpc"}, "handshake", "not a socket in the folder", ""},
		"the folder itself":            {"line", []string{"LINE=1|1|unix|{dir}/|grpc"}, "handshake", "not a socket in the folder", ""},
		"the host's own socket":        {"line", []string{"LINE=1|1|unix|{dir}/host.sock|grpc"}, "handshake", "not a socket in the folder", ""},
		"no socket of that name":       {"line", []string{"LINE=1|1|unix|{dir}/p|grpc"}, "handshake", "no socket at the address", ""},
		"noise, then the end":          {"print", []string{"PRINT=hello\n", "STATUS=0"}, "handshake", `it printed "hello" where the handshake line was expected; it exited with status 0`, "hello"},
		"noise without a line's end":   {"print", []string{"PRINT=hello", "STATUS=0"}, "handshake", `it printed "hello" where`, "hello"},
		"two fields":                   {"print", []string{"PRINT=hello|x\n", "STATUS=1"}, "handshake", `it printed "hello|x" where`, "hello|x"},
		"a number and a field":         {"print", []string{"PRINT=1|x\n", "STATUS=1"}, "handshake", `it printed "1|x" where`, "1|x"},
		"no output, status 3":          {"print", []string{"PRINT_ERR=cannot open display\n", "STATUS=3"}, "handshake", "it ended without a handshake; it exited with status 3", ""},
		"another core":                 {"line", []string{"LINE=2|1|unix|{dir}/p|grpc"}, "handshake", "incompatible core API version", ""},
		"another version":              {"line", []string{"LINE=1|9|unix|{dir}/p|grpc"}, "handshake", "incompatible API version: the plugin uses 9, the host 1", ""},
		"another network":              {"line", []string{"LINE=1|1|udp|{dir}/p|grpc"}, "handshake", `unsupported network "udp"`, ""},
		"no protocol":                  {"line", []string{"LINE=1|1|unix|{dir}/p"}, "handshake", `unsupported plugin protocol "netrpc"`, ""},
		"tcp":                          {"line", []string{"LINE=1|1|tcp|127.0.0.1:1|grpc"}, "handshake", `unsupported network "tcp"`, ""},
		"no certificate":               {"line", []string{"LINE=1|1|unix|{dir}/p|grpc|" + strings.Repeat("A", 60)}, "handshake", "certificate, although TLS was not requested", ""},
		"a real certificate":           {"line", []string{"LINE=1|1|unix|{dir}/p|grpc|" + cert}, "handshake", "certificate, although TLS was not requested", ""},
		"version that is no number":    {"line", []string{"LINE=1|one|unix|{dir}/p|grpc"}, "handshake", "not a number", ""},
		"control characters":           {"line", []string{"LINE=1|1|unix|{dir}/\x1b[2J|grpc"}, "handshake", "control characters", ""},
		"20 lines of noise":            {mode: "noise", env: []string{"LINES=20"}},
		"21 lines of noise":            {"noise", []string{"LINES=21"}, "handshake", "printed too much before the handshake line", "npm warn 0"},
		"8 KiB of noise":               {mode: "noise-bytes", env: []string{"BYTES=8000"}},
		"more than 8 KiB of noise":     {"noise-bytes", []string{"BYTES=8300"}, "handshake", "printed too much", strings.Repeat("x", 256)},
		"1 MiB in one line":            {"noise-bytes", []string{"BYTES=1048576"}, "handshake", "printed too much", strings.Repeat("x", 256)},
		"binary junk":                  {"print", []string{"PRINT=\x7fELF\xff\xfe\x01\n", "STATUS=0"}, "handshake", "where the handshake line was expected", "\\u007fELF\uFFFD\\u0001"},
		"a plugin of the other kind":   {"serve", []string{"KIND=provider"}, "describe", "it is a provider plugin", ""},
		"exit in describe":             {"serve", []string{"DESCRIBE=exit"}, "describe", "the process ended; it exited with status 4", ""},
		"describe without an answer":   {"serve", []string{"DESCRIBE=empty"}, "describe", "without a manifest", ""},
		"error in describe":            {"serve", []string{"DESCRIBE=error"}, "describe", "no idea", ""},
		"invalid manifest":             {"serve", []string{"VERSION=not a version"}, "describe", "not valid", ""},
		"configuration refused":        {"serve", []string{"CONFIGURE=refuse"}, "configure", "unknown unit", ""},
		"configuration panics":         {"serve", []string{"CONFIGURE=crash"}, "configure", "boom in configure", ""},
		"exit in configure":            {"serve", []string{"CONFIGURE=exit"}, "configure", "the process ended; it exited with status 5", ""},
		"serves without health or end": {mode: "bare"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t)
			s := spec(t, c.mode, c.env...)
			s.Kind = 1
			p := h.add(s)
			l, err := p.Acquire(t.Context())
			if c.phase == "" {
				if err != nil {
					t.Fatal(explain(err))
				}
				must(t, l, "pid", "")
				l.Release()
				return
			}
			e, ok := asError(err)
			if !ok {
				t.Fatalf("err = %v", err)
			}
			if e.Phase != c.phase || !strings.Contains(e.Error(), c.says) {
				t.Errorf("phase %s: %s\nwant %s: %s", e.Phase, e, c.phase, c.says)
			}
			if e.Plugin != "w" || e.Where != "gantry.hcl:14" || e.Next == "" && e.Phase != "describe" && e.Phase != "configure" {
				t.Errorf("plugin, place and next step: %q %q %q", e.Plugin, e.Where, e.Next)
			}
			if c.printed != "" && (len(e.Printed) == 0 || e.Printed[0] != c.printed) {
				t.Errorf("printed = %q", e.Printed)
			}
			if st := p.Status(); st.Mode != plugin.ModeCrashed || st.LastError == nil {
				t.Errorf("status = %+v", st)
			}
		})
	}
}

func TestFailedStartReportsStderr(t *testing.T) {
	h := build(t)
	_, err := h.add(spec(t, "print", "PRINT_ERR=loading\ncannot open display\n", "STATUS=3")).Acquire(t.Context())
	e, _ := asError(err)
	if e == nil || strings.Join(e.StderrTail, "|") != "loading|cannot open display" || e.Exit == nil || e.Exit.Code != 3 {
		t.Fatalf("err = %+v", err)
	}
}

func TestAStartHasATimeLimit(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		for _, mode := range []string{"hang", "stopself", "deaf", "silent"} {
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				h := build(t, configure)
				s := spec(t, mode)
				s.StartTimeout = 300 * time.Millisecond
				_, err := h.add(s).Acquire(t.Context())
				e, ok := asError(err)
				if !ok || !strings.Contains(e.Error(), "within 300ms") || e.Next == "" {
					t.Fatalf("err = %v", err)
				}
			})
		}
		t.Run("describe", func(t *testing.T) {
			t.Parallel()
			h := build(t, configure)
			s := spec(t, "serve", "DESCRIBE=hang")
			s.StartTimeout = 300 * time.Millisecond
			_, err := h.add(s).Acquire(t.Context())
			if e, ok := asError(err); !ok || e.Phase != plugin.PhaseDescribe || !strings.Contains(e.Error(), "no answer within 300ms") {
				t.Fatalf("err = %v", err)
			}
		})
	})
}

func TestFilesThatCantBeExecuted(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		path  string
		phase plugin.Phase
		says  string
	}{
		"missing":               {filepath.Join(dir, "no"), "find", "no such file"},
		"a folder":              {dir, "find", "is not a regular file but a folder"},
		"not executable":        {write("plain", "#!/bin/sh\n", 0o600), "find", "is not executable"},
		"empty":                 {write("empty", "", 0o700), "find", "is not a program"},
		"text":                  {write("text", "hello world\n", 0o700), "start", "neither a program nor a script"},
		"missing interpreter":   {write("script", "#!/no/such/python3\n", 0o700), "start", "interpreter /no/such/python3 is missing"},
		"carriage return":       {write("crlf", "#!/bin/sh\r\necho\r\n", 0o700), "start", "carriage return"},
		"for another processor": {write("elf", foreignELF(), 0o700), "start", "is built for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t)
			s := spec(t, "serve")
			s.Path = c.path
			_, err := h.add(s).Acquire(t.Context())
			e, ok := asError(err)
			if !ok || e.Phase != c.phase || !strings.Contains(e.Error(), c.says) || e.Next == "" {
				t.Fatalf("err = %v", err)
			}
		})
	}
}

// foreignELF is the header of a program for another processor.
func foreignELF() string {
	b := make([]byte, 64)
	copy(b, "\x7fELF\x02\x01\x01")
	b[16], b[18], b[20] = 2, 0xF3, 1 // executable, RISC-V, version 1
	b[18+0] = 0xF3
	b[52], b[54], b[58] = 64, 56, 64
	return string(b)
}

func TestAScriptIsRunByItsPath(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no shell")
	}
	h := build(t)
	s := spec(t, "serve")
	script := filepath.Join(t.TempDir(), "plugin.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec '"+s.Path+"' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Path = script
	l := acquire(t, h.add(s))
	defer l.Release()
	must(t, l, "pid", "")
}

func TestTheVerifiedFileIsTheOneThatRuns(t *testing.T) {
	h := build(t)
	s := spec(t, "serve")
	self, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	s.Path = filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(s.Path, self, 0o700); err != nil {
		t.Fatal(err)
	}
	s.SHA256 = strings.Repeat("0", 64)
	p := h.add(s)
	_, err = p.Acquire(t.Context())
	e, ok := asError(err)
	if !ok || e.Phase != plugin.PhaseVerify || !strings.Contains(e.Error(), "the lock file has 000") {
		t.Fatalf("err = %v", err)
	}
	if _, err := p.Manifest(t.Context()); err == nil {
		t.Error("a manifest of a binary that is not the locked one")
	}
}

// The plugin chooses one of the versions that the host offers. TestHandshakes covers the choice of another one.
func TestTheHostOffersOneProtocolVersion(t *testing.T) {
	h := build(t)
	l := acquire(t, h.add(spec(t, "serve")))
	defer l.Release()
	if got := must(t, l, "env", ""); !strings.Contains(got, `"PLUGIN_PROTOCOL_VERSIONS=1"`) || strings.Contains(got, "PLUGIN_MIN_PORT") {
		t.Errorf("environment = %s", got)
	}
}
