package orchestrate

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/hashicorp/go-hclog"
)

// An output that is truncated is stored in full, and the model is told where, unless it can't be stored.
func TestTruncatedOutputIsStored(t *testing.T) {
	long := strings.Repeat("line\n", 1000)
	text := func(fit contract.Fit, s string) *contract.TextPart { return &contract.TextPart{Fit: fit, Text: s} }
	for _, tc := range []struct {
		name   string
		parts  []contract.Part
		nested bool
		fails  error
		kept   string
		told   string
	}{
		{"long", []contract.Part{text(contract.FitVerbatim, "head"), text(contract.FitTruncatable, long)}, false, nil, long, "All of the output of call c1 is in /tmp/x for now"},
		{"lossy", []contract.Part{&contract.TextPart{Fit: contract.FitTruncatable, Text: long, OmittedBytes: 7}}, false, nil, long, "but for 7 bytes of its middle, of call c1"},
		{"two", []contract.Part{text(contract.FitTruncatable, "a"), text(contract.FitTruncatable, long)}, false, nil, "a\n" + long, "All"},
		{"none left for the second", []contract.Part{text(contract.FitTruncatable, long), text(contract.FitTruncatable, "b")}, false, nil, long + "\nb", "All"},
		{"short", []contract.Part{text(contract.FitTruncatable, "short")}, false, nil, "", ""},
		{"of fixed length", []contract.Part{text(contract.FitBounded, long)}, false, nil, "", ""},
		{"nested", []contract.Part{text(contract.FitTruncatable, long)}, true, nil, "", ""},
		{"not kept", []contract.Part{text(contract.FitTruncatable, long)}, false, errors.New("disk full"), long, ""},
	} {
		kept := ""
		r := &run{subject: subject{call: Call{ID: "c1"}, pipeline: &Pipeline{log: hclog.NewNullLogger(), deps: Deps{Keep: func(s string) (string, error) {
			kept = s
			return "/tmp/x", tc.fails
		}}}}}
		if tc.nested {
			r.call.Parents = []event.CallID{"c0"}
		}
		_, missing := modelContent(tc.parts, history.Policy{Limit: 100}, 0)
		r.keepWhole(missing)
		if kept != tc.kept || !strings.Contains(strings.Join(r.context, ""), tc.told) || (tc.told == "") != (r.context == nil) {
			t.Errorf("%s: kept %.20q (%d), told %q", tc.name, kept, len(kept), r.context)
		}
	}
}
