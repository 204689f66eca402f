package pluginset

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

// A call is repeated once after a crash, and not after other errors.
func TestRetryCrash(t *testing.T) {
	died := fmt.Errorf("list models: %w", &plugin.Error{Phase: plugin.PhaseCall, Crash: true})
	for name, c := range map[string]struct {
		answers []error
		asked   int
	}{
		"answers":                        {[]error{nil}, 1},
		"died once":                      {[]error{died, nil}, 2},
		"dies always":                    {[]error{died, died, nil}, 2},
		"does not start":                 {[]error{&plugin.Error{Phase: plugin.PhaseHandshake, Crash: true}, nil}, 1},
		"was stopped":                    {[]error{&plugin.Error{Phase: plugin.PhaseCall}, nil}, 1},
		"says no":                        {[]error{errors.New("no"), nil}, 1},
		"died, and does not start again": {[]error{died, &plugin.Error{Phase: plugin.PhaseStart}, nil}, 2},
	} {
		asked := 0
		err := RetryCrash(func() error { asked++; return c.answers[asked-1] })
		if asked != c.asked || err != c.answers[asked-1] {
			t.Errorf("%s: asked %d times, %v; want %d", name, asked, err, c.asked)
		}
	}
}
