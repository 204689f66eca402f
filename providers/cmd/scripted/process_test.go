//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// asPlugin makes the test binary be the plugin.
const asPlugin = "GANTRY_SCRIPTED_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// process is the plugin as a host runs it.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	conn   *grpc.ClientConn
	exited chan struct{}
	err    error // after exited
}

func launch(t *testing.T, cfg map[string]any, dataDir string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "gp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if err := wire.WriteHello(w, wire.Hello{Token: "token-of-this-test", Transport: wire.TransportPeer}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.ExtraFiles = []*os.File{r}
	cmd.Env = []string{asPlugin + "=1", wire.CookieKey + "=" + wire.CookieValue, wire.ProtocolVersionsEnv + "=1", wire.SocketDirEnv + "=" + sockets, wire.LifelineEnv + "=3"}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	p := &process{t: t, cmd: cmd, exited: make(chan struct{})}
	out := bufio.NewReader(stdout)
	line, lineErr := out.ReadString('\n')
	// Owner: the test, whose clean-up waits for it.
	go func() {
		_, _ = io.Copy(io.Discard, out)
		p.err = cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.exited
	})
	if lineErr != nil {
		t.Fatalf("no handshake: %v", lineErr)
	}
	hs, err := wire.ParseHandshake(line)
	if err != nil {
		t.Fatal(err)
	}
	p.conn, err = grpc.NewClient("unix:"+hs.Address, grpc.WithTransportCredentials(wire.PeerCredentials(wire.SameUser)), grpc.WithPerRPCCredentials(wire.Token("token-of-this-test")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.conn.Close() })
	data, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	res, err := gantryv1.NewPluginServiceClient(p.conn).Configure(t.Context(), &gantryv1.ConfigureRequest{ConfigJson: data, DataDir: dataDir})
	if err != nil || len(res.GetDiagnostics()) > 0 {
		t.Fatalf("configure: %v, %v", err, res.GetDiagnostics())
	}
	return p
}

// stream sends one request and returns its events and how the stream ended.
func (p *process) stream(req *llm.Request) (string, error) {
	p.t.Helper()
	ss, err := gantryv1.NewProviderServiceClient(p.conn).Stream(p.t.Context(), &gantryv1.StreamRequest{Request: convert.RequestToProto(req), ThreadId: "t1", TurnId: "u1"})
	if err != nil {
		p.t.Fatal(err)
	}
	var out []string
	for {
		res, err := ss.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return strings.Join(out, " "), err
		}
		for _, e := range res.GetEvents() {
			ev, ok := convert.EventFromProto(e)
			if !ok {
				p.t.Fatalf("unknown event %v", e)
			}
			word := llm.EventName(ev)
			switch ev := ev.(type) {
			case llm.BlockDelta:
				word += "(" + ev.Text + ")"
			case *llm.Error:
				word += "(" + ev.Code.String() + ")"
			}
			out = append(out, word)
		}
	}
}

const untilDelta = "step-start text-start text-delta(abc) "

func TestAnswersTravel(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p := launch(t, map[string]any{"log": log, "script_text": `
		[[step]]
		chunk = "byte"
		do = [{text = "aä"}, {call = "x", raw = "{"}]
		[[step]]
		do = [{text = "abc"}]
		malformed = "after-finish"
		[[step]]
		do = [{text = "abc"}]
		break = {how = "eof"}
		[[step]]
		do = [{text = "abc"}]
		break = {how = "panic"}
		[[step]]
		error = {code = "quota-exceeded"}`}, "")
	for i, want := range []struct {
		events string
		code   codes.Code
	}{
		{"step-start text-start text-delta(a) text-delta(ä) text-end tool-input-start tool-input-delta({) tool-input-error step-finish finish", codes.OK},
		{untilDelta + "text-end step-finish finish text-start text-delta(and another thing)", codes.OK},
		{untilDelta + "text-end error(incomplete-stream)", codes.OK}, // the SDK closes what a provider leaves open
		{untilDelta + "text-end", codes.Internal},
		{"error(quota-exceeded)", codes.OK},
		{"error(invalid-request)", codes.OK}, // nothing is left to play
	} {
		got, err := p.stream(user("?"))
		if got != want.events || status.Code(err) != want.code {
			t.Errorf("request %d: %s, %v\nwant %s, %v", i+1, got, err, want.events, want.code)
		}
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	n := 0
	for line := range strings.Lines(string(b)) {
		var l requestLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Monotonic <= last || l.Process != p.cmd.Process.Pid {
			t.Errorf("line %d: monotonic %d after %d, pid %d", n+1, l.Monotonic, last, l.Process)
		}
		last = l.Monotonic
		n++
	}
	if n != 6 {
		t.Errorf("%d requests are logged, want 6", n)
	}
}

func TestTheProcessDiesAndComesBackBehindTheStep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := map[string]any{"script_text": `
		[[step]]
		do = [{text = "abc"}]
		break = {how = "kill", after_bytes = 3}
		[[step]]
		do = [{text = "abc"}]
		break = {how = "exit", code = 7, after_bytes = 0}
		[[step]]
		do = [{text = "back"}]`}
	for i, want := range []struct{ events, end string }{
		{strings.TrimSpace(untilDelta), "signal: killed"},
		{"step-start text-start", "exit status 7"},
	} {
		p := launch(t, cfg, dir)
		got, err := p.stream(user("?"))
		if got != want.events || status.Code(err) != codes.Unavailable {
			t.Errorf("process %d: %q, %v; want %q", i+1, got, err, want.events)
		}
		<-p.exited
		if p.err == nil || p.err.Error() != want.end {
			t.Errorf("process %d ended with %v, want %s", i+1, p.err, want.end)
		}
	}
	if got, err := launch(t, cfg, dir).stream(user("?")); got != "step-start text-start text-delta(back) text-end step-finish finish" || err != nil {
		t.Errorf("third process: %s, %v", got, err)
	}
}
