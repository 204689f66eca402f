package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

type settings struct {
	Units string `json:"units" default:"metric" enum:"metric,imperial"`
	Days  int    `json:"days"`
	free  string // not configured
}

func TestManifest(t *testing.T) {
	p := tool.Plugin{
		Name: "weather", Version: "1.2.3", Description: "Weather.", Config: &settings{}, Capabilities: []string{"spawn", "ask"},
		Tools: one("forecast", nil), Limits: contract.Limits{MaxParallelCalls: 3},
		Commands: []tool.Command{tool.NewCommand("status", "Says how it is.", func(context.Context, *tool.CommandCall, struct{}) (any, error) { return nil, nil })},
	}
	s := serve(t, p)
	resp, err := s.Describe(t.Context(), &gantryv1.DescribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	m := resp.GetManifest()
	want := []string{"Adopt", "Ask", "Attach", "Authorize", "Emit", "GetArtifact", "PutArtifact", "Redirect", "Release", "Signal", "Spawn", "Wait"}
	if m.GetName() != "weather" || m.GetKind() != gantryv1.PluginKind_PLUGIN_KIND_TOOL || len(m.GetTools()) != 1 ||
		len(m.GetConfig().GetAttributes()) != 2 || len(m.GetCommands()) != 1 || !slices.Equal(m.GetHostServices(), want) ||
		m.GetLimits().GetMaxParallelCalls() != 3 {
		t.Errorf("manifest %v", m)
	}
}

func TestWrongDeclarations(t *testing.T) {
	good := func(context.Context, *tool.Call, struct{}) (*tool.Result, error) { return nil, nil }
	assess := tool.Assess(func(context.Context, *tool.AssessCall, struct{}) (*contract.Assessment, error) { return nil, nil })
	for name, p := range map[string]tool.Plugin{
		"tool name":         {Tools: one("no spaces", good)},
		"twice":             {Tools: append(one("a", good), one("a", good)...)},
		"zero tool":         {Tools: []tool.Tool{{}}},
		"schema":            {Tools: one("a", good, tool.Schema(json.RawMessage(`{"type":"array"}`)))},
		"schema is no JSON": {Tools: one("a", good, tool.Schema(json.RawMessage(`{`)))},
		"no schema":         {Tools: []tool.Tool{tool.New("a", "", func(context.Context, *tool.Call, json.RawMessage) (*tool.Result, error) { return nil, nil })}},
		"no struct":         {Tools: []tool.Tool{tool.New("a", "", func(context.Context, *tool.Call, int) (*tool.Result, error) { return nil, nil })}},
		"type":              {Tools: []tool.Tool{tool.New("a", "", func(context.Context, *tool.Call, struct{ C chan int }) (*tool.Result, error) { return nil, nil })}},
		"enum": {Tools: []tool.Tool{tool.New("a", "", func(context.Context, *tool.Call, struct {
			N int `enum:"1,2"`
		}) (*tool.Result, error) {
			return nil, nil
		})}},
		"effects, assessed": {Tools: one("a", good, assess, tool.ReadOnly())},
		"config":            {Config: settings{}},
		"command":           {Commands: []tool.Command{{}}},
		"command name":      {Commands: []tool.Command{tool.NewCommand("No", "", func(context.Context, *tool.CommandCall, struct{}) (any, error) { return nil, nil })}},
		"plugin name":       {Name: "No Name"},
	} {
		t.Run(name, func(t *testing.T) {
			p.Name, p.Version = cmpOr(p.Name, "test"), "1.0.0"
			if _, err := tool.NewServer(p, nil); err == nil {
				t.Error("no error")
			}
		})
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &settings{free: "kept"}
		var seen []string
		var refuse error
		p := serve(t, tool.Plugin{
			Config: cfg,
			Configured: func(_ context.Context, env *tool.Env) error {
				seen = append(seen, fmt.Sprintf("%s %d %s", cfg.Units, cfg.Days, env.Label))
				return refuse
			},
			Tools: one("units", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
				return tool.Text(fmt.Sprint(cfg.Units, cfg.Days)), nil
			}),
		})
		// Nothing is called before it is configured.
		if _, err := p.start(t, &gantryv1.CallStart{Tool: "units"}).rest(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("call before configure: %v", err)
		}
		// A typo is a diagnostic with its place; the plugin is not configured then.
		ds := p.configure(t, nil, `{"unit":"metric","days":"3"}`)
		if got := fmt.Sprint(ds); len(ds) != 2 || !strings.Contains(got, `name:"days"`) || !strings.Contains(got, `Did you mean \"units\"?`) {
			t.Errorf("diagnostics %v", got)
		}
		if _, err := p.start(t, &gantryv1.CallStart{Tool: "units"}).rest(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("call after a failed configure: %v", err)
		}
		if ds := p.configure(t, nil, `{"units":null,"days":3}`); len(ds) > 0 {
			t.Fatalf("diagnostics %v", ds)
		}
		// What the plugin itself refuses leaves everything as it was.
		refuse = errors.Join(configblock.Invalid("too many", contract.Name("days")), errors.New("and more"))
		if ds := p.configure(t, nil, `{"units":"imperial","days":99}`); len(ds) != 2 || ds[0].GetPath()[0].GetName() != "days" || ds[1].GetSummary() != "and more" {
			t.Errorf("diagnostics %v", ds)
		}
		if r, _ := p.run(t, &gantryv1.CallStart{Tool: "units"}); resultShape(r) != "metric3" {
			t.Errorf("result %v", r)
		}
		refuse = nil
		if ds := p.configure(t, nil, `{"units":"imperial"}`); len(ds) > 0 {
			t.Fatalf("diagnostics %v", ds)
		}
		if r, _ := p.run(t, &gantryv1.CallStart{Tool: "units"}); resultShape(r) != "imperial0" || cfg.free != "kept" {
			t.Errorf("result %v, free %q", r, cfg.free)
		}
		if want := []string{"metric 3 test", "imperial 99 test", "imperial 0 test"}; !slices.Equal(seen, want) {
			t.Errorf("seen %q, want %q", seen, want)
		}
	})
}

func TestConfiguredPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, tool.Plugin{Configured: func(context.Context, *tool.Env) error { panic("boom") }})
		if ds := p.configure(t, nil, `{}`); len(ds) != 1 || ds[0].GetSummary() != "configured crashed: boom" {
			t.Errorf("diagnostics %v", ds)
		}
	})
}

// The config struct is written while nothing reads it: Configure waits for calls, and calls wait for Configure.
func TestConfigureIsExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &settings{}
		release := make(chan struct{})
		p := configured(t, tool.Plugin{Config: cfg, Tools: one("units", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
			before := cfg.Units
			<-release
			return tool.Text(before + " " + cfg.Units), nil
		})}, nil, `{}`)
		first := p.start(t, &gantryv1.CallStart{Tool: "units"})
		synctest.Wait()

		// It ends with its caller, and the plugin keeps its configuration.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := p.Configure(ctx, &gantryv1.ConfigureRequest{ConfigJson: []byte(`{"units":"imperial"}`)}); err == nil {
			t.Error("configured although a call runs")
		}
		cancel()

		done := make(chan struct{})
		go func() { // owned by this test
			defer close(done)
			if ds := p.configure(t, nil, `{"units":"imperial"}`); len(ds) > 0 {
				t.Errorf("diagnostics %v", ds)
			}
		}()
		synctest.Wait()
		second := p.start(t, &gantryv1.CallStart{Tool: "units"})
		synctest.Wait()
		select {
		case <-done:
			t.Error("configured although a call runs")
		default:
		}
		close(release)
		<-done
		for i, c := range []call{first, second} {
			all, err := c.rest()
			if want := []string{"started | result metric metric", "started | result imperial imperial"}[i]; err != nil || shape(all) != want {
				t.Errorf("call %d: %s, %v", i, shape(all), err)
			}
		}
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		told := make(chan struct{})
		p := configured(t, tool.Plugin{
			Tools: one("wait", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
				<-release
				return tool.Text("done"), nil
			}),
			Drain: func(context.Context) error { close(told); panic("the hook's own problem") },
		}, nil, "{}")
		c := p.start(t, &gantryv1.CallStart{Tool: "wait"})
		synctest.Wait()
		drained := make(chan *gantryv1.DrainResponse, 1)
		go func() { // owned by this test
			r, err := p.Drain(t.Context(), &gantryv1.DrainRequest{DeadlineMs: 60_000})
			if err != nil {
				t.Error(err)
			}
			drained <- r
		}()
		<-told
		synctest.Wait()
		_, err := p.start(t, &gantryv1.CallStart{Tool: "wait"}).rest()
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), `plugin "test" is draining`) {
			t.Errorf("call while draining: %v", err)
		}
		if _, err := p.Assess(t.Context(), &gantryv1.AssessRequest{Tool: "wait"}); status.Code(err) != codes.Unavailable {
			t.Errorf("assess while draining: %v", err)
		}
		close(release)
		if r := <-drained; r.GetStillRunning() != 0 {
			t.Errorf("still running: %d", r.GetStillRunning())
		}
		if all, err := c.rest(); err != nil || shape(all) != "started | result done" {
			t.Errorf("the running call: %s, %v", shape(all), err)
		}
	})
}

func TestDrainWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Tools: one("wait", func(ctx context.Context, _ *tool.Call, _ struct{}) (*tool.Result, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})}, nil, "{}")
		c := p.start(t, &gantryv1.CallStart{Tool: "wait"})
		synctest.Wait()
		before := time.Now()
		r, err := p.Drain(t.Context(), &gantryv1.DrainRequest{})
		if err != nil || r.GetStillRunning() != 1 || time.Since(before) > 0 {
			t.Errorf("drain %v after %v, %v", r, time.Since(before), err)
		}
		c.cancel("replaced", 1000)
		if _, err := c.rest(); err != nil {
			t.Error(err)
		}
	})
}

func TestMaxParallelCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := configured(t, tool.Plugin{Limits: contract.Limits{MaxParallelCalls: 2}, Tools: one("wait", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
			<-release
			return nil, nil
		})}, nil, "{}")
		running := []call{p.start(t, &gantryv1.CallStart{Tool: "wait"}), p.start(t, &gantryv1.CallStart{Tool: "wait"})}
		synctest.Wait()
		_, err := p.start(t, &gantryv1.CallStart{Tool: "wait"}).rest()
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "is running 2 calls") {
			t.Errorf("third call: %v", err)
		}
		close(release)
		for _, c := range running {
			if _, err := c.rest(); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if _, err := p.start(t, &gantryv1.CallStart{Tool: "wait"}).rest(); err != nil {
			t.Errorf("call after the others: %v", err)
		}
	})
}

func TestCloseCancelsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cleaned := false
		p := configured(t, tool.Plugin{
			Tools: one("wait", func(ctx context.Context, _ *tool.Call, _ struct{}) (*tool.Result, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}),
			Close: func(context.Context) error { cleaned = true; return nil },
		}, nil, "{}")
		c := p.start(t, &gantryv1.CallStart{Tool: "wait"})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.server.Close(ctx); err != nil || !cleaned {
			t.Errorf("close: %v, cleaned %v", err, cleaned)
		}
		if all, err := c.rest(); err != nil || shape(all) != "started | result call cancelled: shutdown (error) (aborted)" {
			t.Errorf("the running call: %s, %v", shape(all), err)
		}
	})
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := configured(t, tool.Plugin{
			Tools: one("wait", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
				<-release
				return nil, nil
			}),
			Close: func(context.Context) error { <-release; return nil },
		}, nil, "{}")
		c := p.start(t, &gantryv1.CallStart{Tool: "wait"})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.server.Close(ctx); err == nil || !strings.Contains(err.Error(), "1 calls are still running") || !strings.Contains(err.Error(), "Close has not returned") {
			t.Errorf("close: %v", err)
		}
		if all, err := c.rest(); err != nil || !all[len(all)-1].GetResult().GetAborted() {
			t.Errorf("the running call: %s, %v", shape(all), err)
		}
		close(release)
	})
}

func TestCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type in struct {
			Name string `json:"name"`
		}
		p := configured(t, tool.Plugin{Commands: []tool.Command{
			tool.NewCommand("greet", "Greets.", func(_ context.Context, c *tool.CommandCall, in in) (any, error) {
				switch in.Name {
				case "nobody":
					return nil, errors.New("nobody is there")
				case "ghost":
					panic("boo")
				case "place":
					return nil, configblock.Invalid("not here", contract.Name("units"))
				}
				return map[string]string{"text": "hello " + in.Name + " from " + c.Env().Label}, nil
			}, tool.SideEffects()),
		}}, nil, "{}")
		for _, tc := range []struct{ in, out, err string }{
			{`{"name":"ann"}`, `{"text":"hello ann from test"}`, ""},
			{`{"name":"nobody"}`, "", "nobody is there"},
			{`{"name":"ghost"}`, "", "command greet crashed: boo"},
			{`{"name":"place"}`, "", "not here"},
			{`{}`, "", "failed to parse function arguments: missing field `name` at line 1 column 2"},
			{``, "", "failed to parse function arguments: missing field `name` at line 1 column 2"},
		} {
			r, err := p.Command(t.Context(), &gantryv1.CommandRequest{Name: "greet", InputJson: []byte(tc.in)})
			if err != nil || string(r.GetOutputJson()) != tc.out || r.GetError() != tc.err || (len(r.GetDiagnostics()) > 0) != (tc.err == "not here") {
				t.Errorf("%s: %v, %v", tc.in, r, err)
			}
		}
		if _, err := p.Command(t.Context(), &gantryv1.CommandRequest{Name: "other"}); status.Code(err) != codes.NotFound {
			t.Errorf("unknown command: %v", err)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var env *tool.Env
		good := func(context.Context, *tool.Call, struct{}) (*tool.Result, error) { return tool.Text("one"), nil }
		p := configured(t, tool.Plugin{
			Tools:      one("a", good),
			Configured: func(_ context.Context, e *tool.Env) error { env = e; return nil },
		}, nil, "{}")
		w, err := p.Watch(t.Context(), &gantryv1.WatchRequest{})
		if err != nil {
			t.Fatal(err)
		}
		first, err := w.Recv()
		if err != nil || len(first.GetTools()) != 1 || first.GetRevision() == "" {
			t.Fatalf("first %v, %v", first, err)
		}
		// The same set is no news, though its handlers are new.
		two := func(context.Context, *tool.Call, struct{}) (*tool.Result, error) { return tool.Text("two"), nil }
		if err := env.SetTools(one("a", two)); err != nil {
			t.Fatal(err)
		}
		if r, _ := p.run(t, &gantryv1.CallStart{Tool: "a"}); resultShape(r) != "two" {
			t.Errorf("result %v", r)
		}
		// Whatever is wrong with single tools is reported; the others are set, and of two with one name the first is.
		bad := json.RawMessage(`{"type":"object","properties":{"a":{"pattern":"("}}}`)
		err = env.SetTools(slices.Concat([]tool.Tool{{}}, one("b", two, tool.Source("server")), one("b", good), one("c", good, tool.Schema(bad)),
			one("d", good, tool.Source("nowhere"))), contract.Source{Name: "server", State: contract.SourceReady, Required: true})
		for _, part := range []string{"without New", `"b": declared twice`, `"c": input schema`, `"d": the set has no source "nowhere"`} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
		second, err := w.Recv()
		if err != nil || second.GetTools()[0].GetName() != "b" || len(second.GetTools()) != 4 || second.GetRevision() == first.GetRevision() || !second.GetSources()[0].GetRequired() {
			t.Errorf("second %v, %v", second, err)
		}
		if r, _ := p.run(t, &gantryv1.CallStart{Tool: "b"}); resultShape(r) != "two" {
			t.Errorf("result %v", r)
		}
		r, _ := p.run(t, &gantryv1.CallStart{Tool: "a", Namespace: "ns"})
		if got, want := resultShape(r), "unsupported call: nsa (error)"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestConcurrentCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Tools: []tool.Tool{tool.New("echo", "", func(_ context.Context, c *tool.Call, in struct{ N int }) (*tool.Result, error) {
			c.Output(fmt.Append(nil, in.N))
			return tool.Text(fmt.Sprint(in.N)), nil
		})}}, nil, "{}")
		calls := make([]call, 100)
		for i := range calls {
			calls[i] = p.start(t, &gantryv1.CallStart{Tool: "echo", Input: arguments(fmt.Sprintf(`{"N":%d}`, i))})
		}
		for i, c := range calls {
			all, err := c.rest()
			if want := fmt.Sprintf(`started | output@0 "%d" | result %d`, i, i); err != nil || shape(all) != want {
				t.Errorf("call %d: %s, %v", i, shape(all), err)
			}
		}
	})
}
