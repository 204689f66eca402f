package registry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/sdk/contract"
)

func TestAwaitSources(t *testing.T) {
	const bound = 30 * time.Second
	source := func(state contract.SourceState, required bool) contract.ToolSet {
		return contract.ToolSet{Sources: []contract.Source{{Name: "server", State: state, Required: required, Message: "hm"}}}
	}
	stopped := errors.New("stopped")
	for _, tc := range []struct {
		name  string
		first contract.ToolSet
		then  contract.ToolSet // a second later
		stop  time.Duration    // 0: never
		took  time.Duration
		err   string
	}{
		{name: "no source"},
		{name: "optional", first: source(contract.SourceStarting, false)},
		{name: "ready", first: source(contract.SourceReady, true)},
		{name: "of a later state", first: source(contract.SourceUnknown, true)},
		{name: "failed", first: source(contract.SourceFailed, true), err: `the source "server" of plugin "p" is required and has failed: hm`},
		{name: "becomes ready", first: source(contract.SourceStarting, true), then: source(contract.SourceReady, true), took: time.Second},
		{name: "fails", first: source(contract.SourceStarting, true), then: source(contract.SourceFailed, true), took: time.Second, err: "has failed"},
		{name: "is not there any more", first: source(contract.SourceStarting, true), then: contract.ToolSet{}, took: time.Second},
		{name: "never", first: source(contract.SourceStarting, true), then: source(contract.SourceStarting, true), took: bound, err: "is not ready after 30s"},
		{name: "interrupted", first: source(contract.SourceStarting, true), then: source(contract.SourceStarting, true), stop: 2 * time.Second, took: 2 * time.Second, err: "stopped"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New("p")
				r.Set("p", tc.first)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.stop > 0 {
					time.AfterFunc(tc.stop, func() { cancel(stopped) })
				}
				later := time.AfterFunc(time.Second, func() { r.Set("p", tc.then) })
				defer later.Stop()
				began := time.Now()
				err := r.AwaitSources(ctx, bound)
				if took := time.Since(began); took != tc.took {
					t.Errorf("returned after %v, want %v", took, tc.took)
				}
				if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one with %q", err, tc.err)
				}
			})
		})
	}
}
