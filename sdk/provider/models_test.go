package provider

import (
	"context"
	"errors"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

type lister struct {
	Provider
	rows []llm.ModelRow
	err  error
}

func (l lister) Models(context.Context) ([]llm.ModelRow, error) { return l.rows, l.err }

type finder struct{ lister }

func (finder) Find(_ context.Context, id string) (llm.ModelRow, bool, error) {
	if id == "broken" {
		return llm.ModelRow{}, false, errors.New("broken")
	}
	return llm.ModelRow{ID: id, ContextWindow: 7}, id != "unknown", nil
}

func TestModels(t *testing.T) {
	list := lister{rows: []llm.ModelRow{{ID: "a"}, {ID: "b"}}}
	tests := []struct {
		name string
		p    Provider
		ask  string
		want []string
		err  bool
	}{
		{"all", list, "", []string{"a", "b"}, false},
		{"one of the list", list, "b", []string{"b"}, false},
		{"none of the list", list, "c", nil, false},
		{"a list that fails", lister{err: errors.New("no")}, "a", nil, true},
		{"all of a finder", finder{list}, "", []string{"a", "b"}, false},
		{"found by resemblance", finder{list}, "b-2026", []string{"b-2026"}, false},
		{"not found", finder{list}, "unknown", nil, false},
		{"a finder that fails", finder{list}, "broken", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows, err := models(t.Context(), tt.p, tt.ask)
			if (err != nil) != tt.err || len(rows) != len(tt.want) {
				t.Fatalf("rows = %+v, %v", rows, err)
			}
			for i, r := range rows {
				if r.ID != tt.want[i] {
					t.Errorf("row %d = %q, want %q", i, r.ID, tt.want[i])
				}
			}
		})
	}
}
