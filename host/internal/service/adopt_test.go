package service_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// A kept session goes over to the process that is called, once the one before it has ended; another plugin never sees it.
func TestAdopt(t *testing.T) {
	w := newWorld(t)
	first, second, other := w.client("mine"), w.process("mine", 2), w.process("other", 2)
	var kept string
	w.standby = true
	w.call(t.Context(), func(ctx context.Context, s contract.CallStart) {
		spawn := func(r *gantryv1.SpawnRequest) (*gantryv1.SpawnResponse, error) {
			r.CallToken, r.Argv = s.CallToken, []string{"sh", "-c", "sleep 1000"}
			return first.Spawn(ctx, r)
		}
		for name, r := range map[string]*gantryv1.SpawnRequest{
			"no session":      {Keep: &gantryv1.Keep{}},
			"long note":       {Session: true, Keep: &gantryv1.Keep{Note: make([]byte, launch.MaxNote+1)}},
			"much memory":     {Session: true, Keep: &gantryv1.Keep{MemoryBytes: launch.MaxMemory + 1}},
			"negative memory": {Session: true, Keep: &gantryv1.Keep{MemoryBytes: -1}},
		} {
			if _, err := spawn(r); code(err) != codes.InvalidArgument {
				t.Errorf("%s: %v", name, err)
			}
		}
		p, err := spawn(&gantryv1.SpawnRequest{
			Session: true, Terminal: &gantryv1.Terminal{}, Keep: &gantryv1.Keep{Note: []byte("mine"), MemoryBytes: 4096},
		})
		if err != nil {
			t.Error(err)
			return
		}
		kept = p.GetProcessId()
		if want := []string{"terminal", "memory"}; !slices.Equal(p.GetDescriptors(), want) {
			t.Errorf("descriptors %v, want %v", p.GetDescriptors(), want)
		}
		if a, err := second.Adopt(ctx, &gantryv1.AdoptRequest{}); err != nil || fmt.Sprint(a.GetUnansweredCallIds()) != "[c1]" {
			t.Errorf("a call that runs is unanswered: %v, %v", a, err)
		}
	})
	adopt := func(c gantryv1.HostServiceClient, r *gantryv1.AdoptRequest) *gantryv1.AdoptResponse {
		t.Helper()
		a, err := c.Adopt(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	w.earlier = true
	w.launcher.HolderEnded("mine", 7) // not its own
	if a := adopt(second, &gantryv1.AdoptRequest{}); len(a.GetProcesses()) != 0 || !a.GetEarlierRuns() {
		t.Errorf("adopted by a process that is not called: %v", a)
	}
	w.standby, w.earlier = false, false
	w.launcher.HolderEnded("mine", 1)
	for name, r := range map[string]*gantryv1.AdoptRequest{
		"another thread": {ThreadId: "elsewhere"}, "another process": {ProcessIds: []string{"p-x"}},
	} {
		if a := adopt(second, r); len(a.GetProcesses()) != 0 {
			t.Errorf("%s: %v", name, a)
		}
	}
	if a := adopt(other, &gantryv1.AdoptRequest{}); len(a.GetProcesses()) != 0 {
		t.Errorf("another plugin: %v", a)
	}
	a := adopt(second, &gantryv1.AdoptRequest{ThreadId: string(w.thread), ProcessIds: []string{kept}})
	if len(a.GetProcesses()) != 1 || a.GetEarlierRuns() || len(a.GetUnansweredCallIds()) != 0 {
		t.Fatalf("adopted %v", a)
	}
	p := a.GetProcesses()[0]
	if p.GetProcessId() != kept || string(p.GetNote()) != "mine" || !p.GetTerminal() || p.GetCwd() == "" || p.GetStartedUnixMs() == 0 ||
		p.GetExited() != nil || p.GetThreadId() != string(w.thread) || p.GetCallId() != "c1" || p.GetDescriptorToken() == "" || len(p.GetArgv()) != 3 {
		t.Errorf("adopted %v", p)
	}
	if want := (plugin.Identity{Label: "mine", Generation: 2}); !slices.Contains(w.room, want) || slices.Contains(w.room, plugin.Identity{Label: "other", Generation: 2}) {
		t.Errorf("room was made for %v", w.room)
	}
	// How it ended is told until it is released, however often the plugin dies.
	if _, err := second.Signal(t.Context(), &gantryv1.SignalRequest{ProcessId: kept, KillTree: true}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, err := second.Wait(t.Context(), &gantryv1.WaitRequest{ProcessId: kept}); err != nil || r.GetSignal() == 0 {
			t.Errorf("%v, %v", r, err)
		}
	}
	w.launcher.HolderEnded("mine", 2)
	third := w.process("mine", 3)
	if a := adopt(third, &gantryv1.AdoptRequest{}); len(a.GetProcesses()) != 1 || a.GetProcesses()[0].GetExited().GetSignal() == 0 {
		t.Errorf("adopted after its end: %v", a)
	}
	for range 2 {
		if _, err := other.Release(t.Context(), &gantryv1.ReleaseRequest{ProcessIds: []string{kept}}); err != nil {
			t.Error(err)
		}
		if len(w.launcher.Kept("mine", "")) != 1 {
			t.Error("another plugin released it")
		}
	}
	if _, err := third.Release(t.Context(), &gantryv1.ReleaseRequest{ProcessIds: []string{kept, "p-x"}}); err != nil {
		t.Error(err)
	}
	if a := adopt(third, &gantryv1.AdoptRequest{}); len(a.GetProcesses()) != 0 {
		t.Errorf("adopted after its release: %v", a)
	}
}
