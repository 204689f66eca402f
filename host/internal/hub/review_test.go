package hub_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
)

// A review without a subject starts no thread.
func TestStartReview(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	p := hub.StartParams{Workspace: hub.Workspace{Dir: t.TempDir()}, Source: "review"}
	if _, _, err := h.StartReview(t.Context(), p, hub.ReviewTarget{Kind: hub.Custom}); err == nil {
		t.Error("a review of nothing was started")
	}
	if all, err := h.List(t.Context(), hub.Filter{}); err != nil || len(all) != 0 {
		t.Errorf("threads %v, %v", all, err)
	}
	th, begin, err := h.StartReview(t.Context(), p, hub.ReviewTarget{Kind: hub.Custom, Instructions: "spelling"})
	if err != nil {
		t.Fatal(err)
	}
	evs := follow(t, th, hub.FromNow)
	a, err := begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := until(t, evs, func(e event.Event) bool { return is[event.TurnEnded](e) })
	if end := seen[len(seen)-1]; end.Turn != a.Turn || !strings.Contains(end.Body.(event.TurnEnded).LastMessage, "heard spelling") {
		t.Errorf("turn %s ended as %+v", a.Turn, end)
	}
}

// A caller sees that another one's task has replaced its own.
func TestReplaced(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	th := start(t, h, hub.StartParams{})
	ask(t, th, "one")
	evs := follow(t, th, hub.FromNow)
	slow := submit(t, th, "slow")
	until(t, evs, is[event.ItemDelta])
	compacting, err := th.Compact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if end := ended(t, evs, slow.Turn); !hub.Replaced(end) {
		t.Errorf("the first ended as %+v", end)
	}
	if end := ended(t, evs, compacting.Turn); hub.Replaced(end) {
		t.Errorf("the second ended as %+v", end)
	}
}

func TestPrepare(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	w := hub.Workspace{Dir: t.TempDir()}
	p, err := h.Prepare(t.Context(), w, "", hub.Submission{Input: text("not sent")})
	if err != nil || !strings.Contains(string(p.Body), "not sent") {
		t.Errorf("prepared %+v, %v", p, err)
	}
	if all, err := h.List(t.Context(), hub.Filter{}); err != nil || len(all) != 0 {
		t.Errorf("threads %v, %v", all, err)
	}
}
