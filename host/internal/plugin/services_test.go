//go:build linux

package plugin_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// hostServices is the host service of these tests.
type hostServices struct {
	gantryv1.UnimplementedHostServiceServer
	id      plugin.Identity
	emitted chan<- plugin.Identity
}

func (s *hostServices) Emit(context.Context, *gantryv1.EmitRequest) (*gantryv1.EmitResponse, error) {
	s.emitted <- s.id
	return &gantryv1.EmitResponse{}, nil
}

func withServices(emitted chan<- plugin.Identity) func(*plugin.Config) {
	return func(c *plugin.Config) {
		c.Services = func(id plugin.Identity) gantryv1.HostServiceServer { return &hostServices{id: id, emitted: emitted} }
	}
}

type facts struct{ Data, Cache, Config, Socket, Token, Descriptors, Label string }

func factsOf(t *testing.T, l *plugin.Lease) (f facts) {
	t.Helper()
	if err := json.Unmarshal([]byte(must(t, l, "facts", "")), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAPluginCallsTheHost(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		t.Parallel()
		emitted := make(chan plugin.Identity, 1)
		h := build(t, configure, withServices(emitted))
		l := acquire(t, h.add(spec(t, "serve")))
		defer l.Release()
		f := factsOf(t, l)
		if got := must(t, l, "emit", f.Token); got != `"OK"` {
			t.Errorf("emit = %s", got)
		}
		if id := <-emitted; id != (plugin.Identity{Label: "w", Generation: 1}) {
			t.Errorf("identity = %v", id)
		}
		if got := must(t, l, "emit", "wrong"); got != `"Unauthenticated"` {
			t.Errorf("emit with a wrong token = %s", got)
		}
	})
}

func TestPluginSocketRefusesOtherClients(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		t.Parallel()
		h := build(t, configure, withServices(make(chan plugin.Identity, 1)))
		l := acquire(t, h.add(spec(t, "serve")))
		defer l.Release()
		f := factsOf(t, l)
		// This process has the same user and the token, but is not the plugin.
		conn, err := wire.DialHost(t.Context(), f.Socket, f.Token)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = gantryv1.NewHostServiceClient(conn).Emit(t.Context(), &gantryv1.EmitRequest{})
		if status.Code(err) != codes.Unavailable {
			t.Errorf("err = %v", err)
		}
	})
}

func TestForeignListenerIsRefused(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		t.Parallel()
		h := build(t, configure)
		// The plugin's handshake line names a socket that this process has created in its folder.
		dirs := make(chan string, 1)
		s := spec(t, "line", "LINE=1|1|unix|{dir}/foreign|grpc")
		go func() { // owned by the test, which waits for it
			for {
				found, _ := filepath.Glob(filepath.Join(h.dir, "h*", "plugin-dir*"))
				if len(found) == 1 {
					dirs <- found[0]
					return
				}
			}
		}()
		script := filepath.Join(t.TempDir(), "late")
		if err := os.WriteFile(script, []byte("#!/bin/sh\nwhile [ ! -S \"$PLUGIN_UNIX_SOCKET_DIR/foreign\" ]; do :; done\nexec '"+s.Path+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		s.Path = script
		p := h.add(s)
		done := make(chan error, 1)
		go func() { _, err := p.Acquire(t.Context()); done <- err }() // owned by the test: received below
		ln, err := net.Listen("unix", filepath.Join(<-dirs, "foreign"))
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		err = <-done
		if e, ok := asError(err); !ok || e.Phase != plugin.PhaseConnect || !strings.Contains(e.Error(), "a process other than the plugin listens") {
			t.Errorf("err = %v", err)
		}
	})
}

func TestDescriptorsAreHandedToThePluginOnly(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		t.Parallel()
		ended := make(chan struct{})
		h := build(t, configure, func(c *plugin.Config) {
			c.Descriptors = func(id plugin.Identity, ln net.Listener) {
				defer close(ended)
				for {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					r, w, err := os.Pipe()
					if err != nil {
						return
					}
					_, _ = w.WriteString("hello")
					_ = w.Close()
					buf := make([]byte, len("the-token\n"))
					if _, err := conn.Read(buf); err == nil && string(buf) == "the-token\n" {
						_ = wire.SendDescriptors(conn.(*net.UnixConn), []*os.File{r})
					}
					_ = r.Close()
					_ = conn.Close()
				}
			}
		})
		p := h.add(spec(t, "serve"))
		l := acquire(t, p)
		if got := must(t, l, "descriptor", ""); got != `"hello"` {
			t.Errorf("descriptor = %s", got)
		}
		if _, err := wire.ReceiveDescriptors(t.Context(), factsOf(t, l).Descriptors, "the-token", 1); err == nil {
			t.Error("a stranger got a descriptor")
		}
		l.Release()
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		<-ended
	})
}

// panicking is a host service that panics.
type panicking struct {
	gantryv1.UnimplementedHostServiceServer
}

func (panicking) Emit(context.Context, *gantryv1.EmitRequest) (*gantryv1.EmitResponse, error) {
	panic("our own mistake")
}

func TestHostServicePanicFailsOnlyThatCall(t *testing.T) {
	h := build(t, func(c *plugin.Config) {
		c.Services = func(plugin.Identity) gantryv1.HostServiceServer { return panicking{} }
	})
	l := acquire(t, h.add(spec(t, "serve")))
	defer l.Release()
	token := factsOf(t, l).Token
	for range 2 {
		if got := must(t, l, "emit", token); got != `"Internal"` {
			t.Errorf("emit = %s", got)
		}
	}
	if log := h.log.String(); !strings.Contains(log, "our own mistake") {
		t.Error("the panic is not in the log")
	}
}

func TestConfigure(t *testing.T) {
	t.Run("rendered for the manifest", func(t *testing.T) {
		h := build(t)
		s := spec(t, "serve")
		s.Configure = func(_ context.Context, m *contract.Manifest) ([]byte, []contract.Diagnostic) {
			return []byte(`{"name":"` + m.Name + `"}`), nil
		}
		l := acquire(t, h.add(s))
		defer l.Release()
		f := factsOf(t, l)
		if f.Config != `{"name":"under-test"}` || f.Label != "w" {
			t.Errorf("facts = %+v", f)
		}
		for _, dir := range []string{f.Data, f.Cache} {
			info, err := os.Stat(dir)
			if err != nil || info.Mode().Perm() != 0o700 || filepath.Base(dir) != "w" {
				t.Errorf("%s: %v, %v", dir, info, err)
			}
		}
	})
	t.Run("refused by the plugin", func(t *testing.T) {
		h := build(t)
		_, err := h.add(spec(t, "serve", "CONFIGURE=refuse")).Acquire(t.Context())
		e, ok := asError(err)
		if !ok || len(e.Diagnostics) != 1 || e.Diagnostics[0].Path[0].Name != "units" || e.Next != "use metric or imperial" {
			t.Errorf("err = %+v", err)
		}
	})
	t.Run("refused by the host", func(t *testing.T) {
		h := build(t)
		s := spec(t, "serve")
		s.Configure = func(context.Context, *contract.Manifest) ([]byte, []contract.Diagnostic) {
			return nil, []contract.Diagnostic{{Severity: contract.SeverityError, Summary: "variable KEY is not set"}}
		}
		_, err := h.add(s).Acquire(t.Context())
		if e, ok := asError(err); !ok || e.Phase != plugin.PhaseConfigure || !strings.Contains(e.Error(), "KEY is not set") {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("warnings are kept", func(t *testing.T) {
		h := build(t)
		p := h.add(spec(t, "serve", "CONFIGURE=warn"))
		acquire(t, p).Release()
		if w := p.Warnings(); len(w) != 1 || w[0].Summary != "units is deprecated" {
			t.Errorf("warnings = %v", w)
		}
	})
}

func TestMessageSizes(t *testing.T) {
	h := build(t)
	l := acquire(t, h.add(spec(t, "serve", "MAX_MESSAGE=1048576")))
	defer l.Release()
	if got := len(must(t, l, "big", "8388608")); got != 8<<20 {
		t.Errorf("received %d bytes", got)
	}
	_, err := command(t.Context(), l, "big", "16777217")
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("receiving more than the host's limit: %v", err)
	}
	must(t, l, "echo", strings.Repeat(" ", 1<<20-1000)+"1")
	_, err = command(t.Context(), l, "echo", strings.Repeat(" ", 1<<20)+"1")
	if status.Code(err) != codes.ResourceExhausted || plugin.IsCrash(err) {
		t.Errorf("sending more than the plugin's limit: %v", err)
	}
	must(t, l, "echo", "1")
}
