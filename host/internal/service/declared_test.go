package service_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/service"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A declared process is what the configuration says. It belongs to its plugin's process: calls come and go.
func TestDeclaredProcess(t *testing.T) {
	w := newWorld(t)
	dir, top := t.TempDir(), t.TempDir()
	w.programs = map[string]service.Program{}
	grant := launch.Grant{Mode: "full-access", Network: true}
	w.declared = func(name string) (service.Declared, error) {
		if name != "server.a" {
			return service.Declared{}, errors.New("no such process")
		}
		return service.Declared{
			Argv: []string{"sh", "-c", `echo "$KEY $PRINTED $KEEP" > out.new; mv out.new out; sleep 1000`}, Cwd: dir, Grant: grant,
			Env: map[string]service.Secret{
				"KEY":     {Value: "the key of the server"},
				"PRINTED": {Program: &service.Program{Argv: []string{"echo", "printed"}, Dir: top, Timeout: time.Minute}},
			},
		}, nil
	}
	mine, other := w.client("mine"), w.client("other")
	declared := &gantryv1.SpawnRequest{Declared: "server.a"}
	r, err := mine.Spawn(t.Context(), declared)
	if err != nil || r.GetError() != nil {
		t.Fatal(err, r.GetError())
	}
	p, ok := w.launcher.Process(r.GetProcessId())
	if !ok || p.Owner().Plugin != "mine" || p.Owner().Thread != "" {
		t.Fatalf("%v, %v", ok, p)
	}
	until(t, "the process has written", func() bool { _, err := os.Stat(filepath.Join(dir, "out")); return err == nil })
	if out, _ := os.ReadFile(filepath.Join(dir, "out")); string(out) != "the key of the server printed 1\n" {
		t.Errorf("its environment: %q", out)
	}
	if text := w.known.Text("the key of the server"); text == "the key of the server" {
		t.Error("the value of a variable is not redacted")
	}
	w.call(t.Context(), func(ctx context.Context, s contract.CallStart) {
		if _, err := mine.Spawn(ctx, &gantryv1.SpawnRequest{CallToken: s.CallToken, Argv: []string{"true"}}); err != nil {
			t.Error(err)
		}
	})
	w.launcher.HolderEnded("mine", 2) // another process of the plugin
	select {
	case <-p.Exited():
		t.Error("it ended with a call or another process of the plugin")
	default:
	}
	w.launcher.HolderEnded("mine", 1)
	<-p.Gone()

	for name, req := range map[string]*gantryv1.SpawnRequest{
		"a call": {CallToken: "x"}, "a program": {Argv: []string{"true"}}, "a folder": {Cwd: "/"}, "variables": {Env: map[string]string{"A": "b"}},
		"fewer variables": {Unset: []string{"KEY"}}, "a session": {Session: true}, "read only": {ReadOnly: true}, "kept": {Keep: &gantryv1.Keep{}},
	} {
		req.Declared = "server.a"
		if r, err := mine.Spawn(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("with %s: %v, %v", name, r, err)
		}
	}
	for name, c := range map[string]struct {
		client gantryv1.HostServiceClient
		name   string
	}{"unknown": {mine, "server.b"}, "another plugin's": {other, "server.a"}} {
		if r, err := c.client.Spawn(t.Context(), &gantryv1.SpawnRequest{Declared: c.name}); err != nil || !r.GetError().GetDenied() {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	w.lacks = "spawn"
	if _, err := mine.Spawn(t.Context(), declared); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without the capability: %v", err)
	}
	w.lacks = ""
	dir = filepath.Join(dir, "missing")
	if r, err := mine.Spawn(t.Context(), declared); err != nil || r.GetError().GetMessage() != "chdir "+dir+": No such file or directory" {
		t.Errorf("a folder that does not exist: %v, %v", r, err)
	}
	grant = launch.Grant{Mode: "no such mode"}
	if r, err := mine.Spawn(t.Context(), declared); err != nil || !r.GetError().GetDenied() {
		t.Errorf("a sandbox that can't be enforced: %v, %v", r, err)
	}
}

// The launcher is told of the end of a plugin's process once. A process that is just being started then must not stay.
func TestDeclaredProcessOfAnEndedPlugin(t *testing.T) {
	w := newWorld(t)
	w.declared = func(string) (service.Declared, error) {
		return service.Declared{Argv: []string{"sleep", "1000"}, Cwd: "/", Grant: launch.Grant{Mode: "full-access", Network: true}}, nil
	}
	asked := 0
	w.granted = func() {
		if asked++; asked == 2 { // the first one is before the start
			w.lacks = "spawn"
		}
	}
	if r, err := w.client("mine").Spawn(t.Context(), &gantryv1.SpawnRequest{Declared: "server.a"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("%v, %v", r, err)
	}
	until(t, "the process has ended", func() bool { return w.launcher.Count() == 0 })
}
