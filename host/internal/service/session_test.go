package service_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"google.golang.org/grpc/codes"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// session starts a session, takes its descriptors as a plugin does, and closes them.
func session(ctx context.Context, c gantryv1.HostServiceClient, socket, token string, argv ...string) (id string, err error) {
	p, err := c.Spawn(ctx, &gantryv1.SpawnRequest{CallToken: token, Session: true, MergeStderr: true, Argv: argv})
	if err != nil {
		return "", err
	}
	files, err := wire.ReceiveDescriptors(ctx, socket, p.GetDescriptorToken(), len(p.GetDescriptors()))
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return p.GetProcessId(), err
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("this system has no list of open descriptors")
	}
	return len(entries)
}

// A session belongs to no call, and its thread may last for days. What the host holds for it goes when its plugin has been
// told how it ended.
func TestEndedSessionsCostNothing(t *testing.T) {
	w := newWorld(t)
	mine := w.client("mine")
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "d"))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { w.launcher.ServeDescriptors("mine", ln) })
	defer serving.Wait()
	defer ln.Close()
	run := func(token string, argv ...string) (id string) {
		id, err := session(t.Context(), mine, ln.Addr().String(), token, argv...)
		if err == nil {
			_, err = mine.Wait(t.Context(), &gantryv1.WaitRequest{ProcessId: id})
		}
		if err != nil {
			t.Error(err)
		}
		return id
	}
	var before int
	w.call(t.Context(), func(_ context.Context, s contract.CallStart) {
		for i := range 200 {
			run(s.CallToken, "true")
			if i == 20 {
				before = openDescriptors(t)
			}
		}
		// The last ones may be on their way, and one that still holds something stays.
		if after := openDescriptors(t); after > before+8 {
			t.Errorf("%d descriptors after 20 sessions, %d after 200", before, after)
		}
		if lives := run(s.CallToken, "sh", "-c", "sleep 1000 & exit 4"); !known(w, lives) {
			t.Error("a session was forgotten of which something still runs")
		}
	})
}

func known(w *world, id string) bool {
	_, ok := w.launcher.Process(id)
	return ok
}

// The interrupt of a call also cancels what its plugin has asked for, so that the plugin may not learn the ID of a session that has just
// started. A session that it knows is the plugin's to end.
func TestInterruptEndsSessionsThatThePluginDoesNotKnow(t *testing.T) {
	w := newWorld(t)
	mine := w.client("mine")
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "d"))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { w.launcher.ServeDescriptors("mine", ln) })
	defer serving.Wait()
	defer ln.Close()
	for name, c := range map[string]struct {
		claim     func(*gantryv1.SpawnResponse) error
		interrupt bool
		lives     bool
	}{
		"unknown":             {interrupt: true},
		"unknown, call ended": {lives: true},
		"used": {interrupt: true, lives: true, claim: func(p *gantryv1.SpawnResponse) error {
			_, err := mine.ProcessStat(t.Context(), &gantryv1.ProcessStatRequest{ProcessId: p.GetProcessId()})
			return err
		}},
		"received": {interrupt: true, lives: true, claim: func(p *gantryv1.SpawnResponse) error {
			files, err := wire.ReceiveDescriptors(t.Context(), ln.Addr().String(), p.GetDescriptorToken(), len(p.GetDescriptors()))
			for _, f := range files {
				err = errors.Join(err, f.Close())
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancelCause(t.Context())
			defer interrupt(nil)
			var id string
			w.call(ctx, func(_ context.Context, s contract.CallStart) {
				p, err := mine.Spawn(t.Context(), &gantryv1.SpawnRequest{
					CallToken: s.CallToken, Session: true, Keep: &gantryv1.Keep{}, Argv: []string{"sleep", "1000"},
				})
				if err == nil && c.claim != nil {
					err = c.claim(p)
				}
				if err != nil {
					t.Error(err)
				}
				id = p.GetProcessId()
				if c.interrupt {
					interrupt(orchestrate.ErrInterrupted)
				}
			})
			if known(w, id) != c.lives {
				t.Errorf("the session lives: %v", !c.lives)
			}
		})
	}
}

// A session of the root thread outlives the thread of the call that started it, and ends with the root. What the user allows in the thread
// is open for it.
func TestSessionOfTheRoot(t *testing.T) {
	w := newWorld(t)
	w.root = event.NewThreadID()
	w.judge = func(network.Request) network.Decision { return network.Decision{Allow: true} }
	mine := w.client("mine")
	var processes []*launch.Process
	w.call(t.Context(), func(ctx context.Context, s contract.CallStart) {
		r := &gantryv1.SpawnRequest{CallToken: s.CallToken, Argv: []string{"sleep", "1000"}, Owner: gantryv1.ProcessOwner_PROCESS_OWNER_ROOT}
		if got, err := mine.Spawn(ctx, r); code(err) != codes.InvalidArgument {
			t.Errorf("a process that is no session: %v, %v", got, err)
		}
		r.Session = true
		for _, owner := range []gantryv1.ProcessOwner{gantryv1.ProcessOwner_PROCESS_OWNER_ROOT, gantryv1.ProcessOwner_PROCESS_OWNER_THREAD} {
			r.Owner = owner
			got, err := mine.Spawn(ctx, r)
			if err != nil || got.GetError() != nil {
				t.Fatal(got, err)
			}
			p, _ := w.launcher.Process(got.GetProcessId())
			processes = append(processes, p)
		}
		if a, err := mine.Authorize(ctx, &gantryv1.AuthorizeRequest{CallToken: s.CallToken, Effects: []*gantryv1.Effect{
			{Kind: &gantryv1.Effect_Browser{Browser: &gantryv1.BrowserEffect{Origin: "https://a.test"}}},
		}}); err != nil || !a.GetGranted() {
			t.Error(a, err)
		}
	})
	if got := processes[0].Owner(); got.Thread != string(w.root) || !launch.Quiet(processes[0]) {
		t.Errorf("the owner is %+v", got)
	}
	if want := []string{"mine a.test:443", "mine a.test:443"}; !slices.Equal(w.opened, want) {
		t.Errorf("opened %q, want it for the thread and the root", w.opened)
	}
	if err := w.launcher.EndThread(t.Context(), string(w.thread)); err != nil {
		t.Fatal(err)
	}
	if _, err := processes[1].Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if s := launch.ReadTree(processes[0]); runtime.GOOS == "linux" && s.PIDs != 1 {
		t.Errorf("the session of the root has ended with the thread: %+v", s)
	}
	if err := w.launcher.EndThread(t.Context(), string(w.root)); err != nil {
		t.Fatal(err)
	}
	if _, err := processes[0].Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
