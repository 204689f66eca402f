package orchestrate

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
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

// The vectors of results that are too long: they are cut once, and what the marker says is what is lost.
func TestVectorsOfLongResults(t *testing.T) {
	const header = "Wall time: 0.0010 seconds\nOutput:"
	for _, tc := range []struct {
		name         string
		texts, bytes int
		limit        int64
	}{
		{"M13", 3, 30_000, 10_000},
		{"15.11, 200 000 bytes", 1, 200_000, 100},
		{"one too many", 2, 6_000, 10_000},
	} {
		parts := []contract.Part{&contract.TextPart{Audience: contract.AudienceModel, Text: header, Fit: contract.FitVerbatim}}
		for range tc.texts {
			parts = append(parts, &contract.TextPart{Text: strings.Repeat("x", tc.bytes)})
		}
		out, cut := modelContent(parts, history.Policy{Bytes: true, Limit: tc.limit}, 0)
		text := ""
		for _, p := range out {
			text += p.(*llm.Text).Text
		}
		if !strings.HasPrefix(text, header) {
			t.Fatalf("%s: %.100q", tc.name, text)
		}
		if most := int(float64(tc.limit) * historySlack); len(text) > most && tc.limit > 1000 || len(text) > most+len(header)+100 { // a very small limit has no room for the marker
			t.Errorf("%s: %d bytes, at most %d", tc.name, len(text), most)
		}
		shown := strings.Count(text, "x") - strings.Count(text, " text items")
		lost := 0
		for _, m := range regexp.MustCompile(`…(\d+) chars truncated…|\[omitted (\d+) text items`).FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(m[1] + m[2])
			if err != nil {
				t.Fatal(err)
			}
			if m[2] != "" {
				n *= tc.bytes
			}
			lost += n
		}
		if shown+lost != tc.texts*tc.bytes {
			t.Errorf("%s: %d are shown and %d are said to be lost, of %d: %q", tc.name, shown, lost, tc.texts*tc.bytes, strings.ReplaceAll(text, "xxxxxxxxxx", ""))
		}
		if len(cut.whole) != tc.texts || !cut.some {
			t.Errorf("%s: %d texts are kept, %v", tc.name, len(cut.whole), cut.some)
		}
	}
}
