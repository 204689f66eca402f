//go:build linux

package tool_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/gantry-agent/gantry/sdk/process/processtest"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

const weather = "../../docs/examples/weather"

// The promise of the manual: a complete plugin in less than 60 lines.
func TestExampleIsShort(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(weather, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source, []byte("\n")); n >= 60 {
		t.Errorf("the example has %d lines", n)
	}
	for _, what := range []string{"jsonschema:", "default:", "c.Output(", "c.Progress(", "c.Artifact(", "c.Command(", "ctx.Done()", "fmt.Errorf("} {
		if !bytes.Contains(source, []byte(what)) {
			t.Errorf("the example shows no %s", what)
		}
	}
}

// The example as a user builds it: a module of its own, run as a process by a host.
func TestExampleRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a binary")
	}
	t.Parallel()
	p, host := startExample(t)

	c := p.start(t, &gantryv1.CallStart{Tool: "forecast", Input: arguments(`{"city":"Rome"}`)})
	all, err := c.rest()
	if err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	var progress int
	var artifact string
	for _, m := range all {
		output.Write(m.GetOutput().GetData())
		if m.GetProgress() != nil {
			progress++
		}
		artifact += m.GetArtifact().GetSha256()
	}
	days := "77°F in Rome on day 1\n59°F in Rome on day 2\n68°F in Rome on day 3\n"
	if output.String() != days || progress != 3 {
		t.Errorf("output %q, %d times progress", output.String(), progress)
	}
	if a, ok := host.Artifact(artifact); !ok || string(a.Data) != days || a.Name != "forecast.txt" {
		t.Errorf("artifact %+v, %v", a, ok)
	}
	if r := all[len(all)-1].GetResult(); !strings.HasPrefix(resultShape(r), "Warmest first:\n77°F") || r.GetIsError() {
		t.Errorf("result %q", resultShape(r))
	}
	if r, _ := p.run(t, &gantryv1.CallStart{Tool: "forecast", Input: arguments(`{"city":"Rome","days":9}`)}); resultShape(r) != "days must be 1 to 7, not 9 (error)" {
		t.Errorf("result %q", resultShape(r))
	}
	if ds := p.configure(t, host.Facts(), `{"units":"kelvin"}`); len(ds) != 1 || ds[0].GetPath()[0].GetName() != "units" {
		t.Errorf("diagnostics %v", ds)
	}
	if ds := p.configure(t, host.Facts(), `{"pace":"1h"}`); len(ds) > 0 {
		t.Fatalf("diagnostics %v", ds)
	}
	c = p.start(t, &gantryv1.CallStart{Tool: "forecast", Input: arguments(`{"city":"Oslo"}`)})
	for { // until the first day is there
		m, err := c.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetOutput() != nil {
			break
		}
	}
	c.cancel("interrupted", 10_000)
	for {
		m, err := c.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if r := m.GetResult(); r != nil {
			if !strings.HasPrefix(resultShape(r), "stopped after day 1:\n25°C in Oslo") {
				t.Errorf("result %q", resultShape(r))
			}
			break
		}
	}
}

// startExample builds the example and starts it as a host does.
func startExample(t *testing.T) (plugin, *processtest.Host) {
	t.Helper()
	// The socket's path must be short.
	dir, err := os.MkdirTemp("", "ex")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary := filepath.Join(dir, "weather")
	build := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-o", binary, ".")
	build.Dir = weather
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0") // as make builds, which has compiled most of it before
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	host := processtest.Start(t, processtest.Options{})
	lifelineEnd, lifeline, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), wire.CookieKey + "=" + wire.CookieValue, wire.ProtocolVersionsEnv + "=1",
		wire.SocketDirEnv + "=" + dir, wire.LifelineEnv + "=3",
	}
	cmd.ExtraFiles = []*os.File{lifelineEnd}
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = lifelineEnd.Close()
	token := wire.NewToken()
	if err := wire.WriteHello(lifeline, wire.Hello{Token: token, Transport: wire.TransportPeer}); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("handshake: %q, %v", line, err)
	}
	hs, err := wire.ParseHandshake(line)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix:"+hs.Address, grpc.WithTransportCredentials(wire.PeerCredentials(wire.SameUser)),
		grpc.WithPerRPCCredentials(wire.Token(token)))
	if err != nil {
		t.Fatal(err)
	}
	p := plugin{gantryv1.NewPluginServiceClient(conn), gantryv1.NewToolServiceClient(conn), nil}
	t.Cleanup(func() {
		before := time.Now()
		if _, err := p.Stop(context.Background(), &gantryv1.StopRequest{}); err != nil {
			t.Errorf("stop: %v", err)
		}
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the plugin ended with %v", err)
		}
		t.Logf("stopped in %v", time.Since(before))
		_ = lifeline.Close()
		_ = conn.Close()
	})
	if ds := p.configure(t, host.Facts(), `{"units":"imperial","pace":"1ms"}`); len(ds) > 0 {
		t.Fatalf("diagnostics %v", ds)
	}
	return p, host
}
