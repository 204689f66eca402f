package service_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// What a call that gets no result has started ends with it, whatever language its plugin is written in: its processes, and a session that
// the plugin does not know, as the response that names it was lost. The next process of a plugin that has crashed adopts its sessions.
func TestCallWithoutAResultEndsWhatItHasStarted(t *testing.T) {
	for name, c := range map[string]struct {
		cut   error
		uses  bool // the plugin uses the session's ID
		lives bool
	}{
		"deadline":                   {cut: tool.ErrDeadline},
		"grace period":               {cut: tool.ErrGrace},
		"no result":                  {cut: errors.New("the plugin ended the call without a result")},
		"deadline, session in use":   {cut: tool.ErrDeadline, uses: true, lives: true},
		"crash":                      {cut: &plugin.Error{Plugin: "mine", Crash: true}, lives: true},
		"result, session not in use": {lives: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cut = c.cut
			mine := w.client("mine")
			var session, process string
			w.call(t.Context(), func(_ context.Context, s contract.CallStart) {
				spawn := func(r *gantryv1.SpawnRequest) string {
					r.CallToken, r.Argv = s.CallToken, []string{"sleep", "1000"}
					p, err := mine.Spawn(t.Context(), r)
					if err != nil {
						t.Error(err)
					}
					return p.GetProcessId()
				}
				process = spawn(&gantryv1.SpawnRequest{})
				session = spawn(&gantryv1.SpawnRequest{Session: true, Keep: &gantryv1.Keep{}})
				if !c.uses {
					return
				}
				if _, err := mine.ProcessStat(t.Context(), &gantryv1.ProcessStatRequest{ProcessId: session}); err != nil {
					t.Error(err)
				}
			})
			if process == "" || known(w, process) {
				t.Errorf("process %q lives", process)
			}
			if session == "" || known(w, session) != c.lives {
				t.Errorf("session %q lives: %v", session, !c.lives)
			}
		})
	}
}
