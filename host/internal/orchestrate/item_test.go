package orchestrate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestItemListsArtifacts(t *testing.T) {
	digest := func(i int) string { return fmt.Sprintf("%064x", i) }
	s := newItem(Call{Model: &llm.ToolCall{}}, nil, nil)
	for _, bad := range []string{"", "abc", strings.Repeat("A", 64), strings.Repeat("z", 64)} {
		s.stored(contract.ArtifactRef{SHA256: bad})
	}
	s.assessed(&contract.ImageItem{Path: "/a.png", ArtifactSHA256: digest(0)})
	s.observe(contract.ArtifactRef{SHA256: digest(0), SizeBytes: 3, MediaType: "image/png", Name: strings.Repeat("é", 200)})
	s.assessed(&contract.ImageItem{Path: "/a.png", ArtifactSHA256: digest(0)})
	want := event.Artifact{SHA256: digest(0), Bytes: 3, MediaType: "image/png", Name: strings.Repeat("é", 127)}
	if len(s.item.Artifacts) != 1 || s.item.Artifacts[0] != want {
		t.Errorf("artifacts %+v, want %+v", s.item.Artifacts, want)
	}
	notes := 0
	for i := range 2 * maxItemArtifacts {
		if s.observe(contract.ArtifactRef{SHA256: digest(i)}) != nil {
			notes++
		}
	}
	if len(s.item.Artifacts) != maxItemArtifacts || notes != 1 {
		t.Errorf("%d artifacts and %d notes that there are more, want %d and 1", len(s.item.Artifacts), notes, maxItemArtifacts)
	}
}

// A call works on the session that its item names.
func TestSessionsOfItems(t *testing.T) {
	for _, it := range []contract.Item{&contract.CommandItem{SessionID: "k"}, &contract.CodeItem{SessionID: "k"}} {
		s := &subject{assessment: contract.Assessment{Item: it}}
		if got := s.sessionIDs(); len(got) != 1 || got[0] != "k" {
			t.Errorf("%T: %q", it, got)
		}
	}
}
