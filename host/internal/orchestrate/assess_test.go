package orchestrate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// A plugin that crashes during an assessment has had no effect, so its next process is asked, once.
func TestAssessmentIsRetriedAfterACrash(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		crashes, asked int
		want           string
	}{{0, 1, "done"}, {1, 2, "done"}, {5, 2, "crashed"}} {
		b := &bench{call: func(contract.CallStart) (*contract.Result, error) { return contract.Text("done"), nil }}
		asked := 0
		b.assess = func(contract.AssessRequest) (*contract.Assessment, error) {
			if asked++; asked <= tc.crashes {
				return nil, &plugin.Error{Plugin: "p", Crash: true}
			}
			return &contract.Assessment{}, nil
		}
		if a := b.run(t, assessed, `{}`); !strings.Contains(text(a), tc.want) || asked != tc.asked {
			t.Errorf("after %d crashes: asked %d times, %q", tc.crashes, asked, text(a))
		}
	}
	b := &bench{assess: func(contract.AssessRequest) (*contract.Assessment, error) { return nil, errors.New("no") }}
	if a := b.run(t, assessed, `{}`); !strings.Contains(text(a), "no") || len(slices.DeleteFunc(b.steps, func(s string) bool { return s != "assess" })) > 1 {
		t.Errorf("an answer that is an error: %q\n%q", text(a), b.steps)
	}
}
