package service_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// narrowBox records the grants of narrow processes, and confines nothing.
type narrowBox struct {
	launch.Unconfined
	got chan launch.Grant
}

// Enforces accepts narrow grants.
func (narrowBox) Enforces(g launch.Grant) bool { return g.Mode == launch.Narrow }

// Confine records a grant.
func (b narrowBox) Confine(_ context.Context, g launch.Grant, _ bool, _ *launch.Confinement) (func(), error) {
	select {
	case b.got <- g:
	default: // a test that expects no process
	}
	return nil, nil
}

// A narrow process gets folders of its plugin and the proxy, whatever its call may do, and the call's denials and limits.
func TestSpawnNarrow(t *testing.T) {
	w := newWorld(t)
	mine := w.client("mine")
	w.limits.OpenFiles = 100
	folders := []string{"/data/mine/profile", "/cache/mine/a/b"}
	want := launch.Grant{Mode: launch.Narrow, WritableRoots: folders, DenyRead: []string{"/secret"}, Proxied: true, Landlock: true, Limits: w.limits}
	for name, tc := range map[string]struct {
		mode  string // of the plugin's own settings
		grant func(*launch.Grant)
		hosts []string
	}{
		"no network":  {"", func(g *launch.Grant) { g.Network = false }, []string{"none.invalid"}},
		"the proxy":   {"", func(g *launch.Grant) { g.Network, g.Proxied = false, true }, nil},
		"all of it":   {"", func(g *launch.Grant) {}, []string{"*"}},
		"only a host": {"", func(g *launch.Grant) { g.Network, g.Proxied, g.Hosts = false, true, []string{"one.test"} }, []string{"one.test"}},
		// Its own settings hold, also in a call that has the whole network.
		"its own proxy": {"proxy", func(g *launch.Grant) {}, nil},
		"its own none":  {"none", func(g *launch.Grant) {}, []string{"none.invalid"}},
		"its own full":  {"full", func(g *launch.Grant) {}, []string{"*"}},
	} {
		w.mode = map[string]string{"mine": tc.mode, "other": "full"}
		w.grant = func(g *launch.Grant) {
			g.WritableRoots, g.Shown, g.Near, g.Tmp, g.Landlock = []string{"/ws"}, []string{"/key"}, []string{"/tmp/near"}, "/x", true
			g.DenyRead, g.DenyWrite = []string{"/secret"}, []string{"/ws/kept"}
			tc.grant(g)
		}
		w.call(t.Context(), func(ctx context.Context, s contract.CallStart) {
			for _, quiet := range []bool{false, true} {
				r, err := mine.Spawn(ctx, &gantryv1.SpawnRequest{CallToken: s.CallToken, Argv: []string{"pwd"}, Narrow: true, Folders: folders, QuietNetwork: quiet})
				if err != nil || r.GetError() != nil {
					t.Fatalf("%s: %v, %v", name, r, err)
				}
				want.Hosts, want.Quiet = tc.hosts, quiet
				if got := <-w.narrow; !reflect.DeepEqual(got, want) {
					t.Errorf("%s: the grant is\n%+v, want\n%+v", name, got, want)
				}
			}
		})
	}
}

func TestSpawnNarrowRefuses(t *testing.T) {
	w := newWorld(t)
	mine := w.client("mine")
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprint("/data/mine/", i))
	}
	w.call(t.Context(), func(ctx context.Context, s contract.CallStart) {
		for name, r := range map[string]*gantryv1.SpawnRequest{
			"folders without narrow": {Folders: []string{"/data/mine/x"}},
			"all data":               {Narrow: true, Folders: []string{"/data/mine"}},
			"another plugin's":       {Narrow: true, Folders: []string{"/data/mine/x", "/data/other/x"}},
			"the user's":             {Narrow: true, Folders: []string{"/home/user"}},
			"upwards":                {Narrow: true, Folders: []string{"/data/mine/../other/x"}},
			"relative":               {Narrow: true, Folders: []string{"x"}},
			"too many":               {Narrow: true, Folders: many},
			"with a declared one":    {Narrow: true, Declared: "server.x"},
		} {
			if r.Declared == "" {
				r.CallToken, r.Argv = s.CallToken, []string{"true"}
			}
			if got, err := mine.Spawn(ctx, r); code(err) != codes.InvalidArgument {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
	})
}

// A plugin learns what its own processes use.
func TestProcessStat(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("other")
	w.call(t.Context(), func(ctx context.Context, s contract.CallStart) {
		p, err := mine.Spawn(ctx, &gantryv1.SpawnRequest{CallToken: s.CallToken, Argv: []string{"sleep", "1000"}})
		if err != nil {
			t.Fatal(err)
		}
		r := &gantryv1.ProcessStatRequest{ProcessId: p.GetProcessId()}
		until(t, "the process has memory", func() bool { // the kernel counts it late
			got, err := mine.ProcessStat(ctx, r)
			if err != nil || runtime.GOOS == "linux" && (got.GetPids() != 1 || got.GetMemoryLimitBytes() != w.limits.MemoryBytes) {
				t.Errorf("%v, %v", got, err)
			}
			return runtime.GOOS != "linux" || got.GetMemoryBytes() >= 1<<10
		})
		if got, err := other.ProcessStat(ctx, r); code(err) != codes.NotFound {
			t.Errorf("another plugin: %v, %v", got, err)
		}
		if want := map[bool]string{true: "127.0.0.1:3128"}[runtime.GOOS == "linux"]; s.Grant.Proxy != want {
			t.Errorf("the proxy is at %q, want %q", s.Grant.Proxy, want)
		}
	})
}
