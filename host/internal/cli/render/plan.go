package render

import "github.com/gantry-agent/gantry/host/internal/event"

// planned writes a plan. In codex's format, all plans of a turn are one item, which is completed at the turn's end.
func (j *jsonl) planned(it event.Item) {
	if _, ok := it.Plan(); !ok {
		return
	}
	kind := "item.started"
	if j.plan != nil {
		kind, it.ID = "item.updated", j.plan.ID
	}
	j.plan = &it
	j.item(kind, it)
}

type todo struct {
	Text      string `json:"text"`
	Completed bool   `json:"completed"`
}

// todoList returns a plan in codex's format; nil: the item has none.
func todoList(it event.Item) ordered {
	p, ok := it.Plan()
	if !ok {
		return nil
	}
	items := make([]todo, 0, len(p.Steps))
	for _, s := range p.Steps {
		items = append(items, todo{s.Step, s.Status == event.StepCompleted})
	}
	return ordered{"type": "todo_list", "items": items}
}

// planned shows a plan. It reports whether the item has one.
func (h *Human) planned(it event.Item) bool {
	p, ok := it.Plan()
	if !ok {
		return false
	}
	h.line("%s %s", h.paint(cyan, "•"), h.paint(bold, "plan"))
	if p.Explanation != "" {
		h.line("  %s", h.paint(dim, Clean(p.Explanation)))
	}
	for _, s := range p.Steps {
		text := Clean(s.Step)
		switch s.Status {
		case event.StepCompleted:
			h.line("  %s %s", h.paint(green, "✓"), h.paint(dim, text))
		case event.StepInProgress:
			h.line("  %s %s", h.paint(cyan, "▸"), h.paint(bold, text))
		default:
			h.line("  ○ %s", text)
		}
	}
	h.block = ""
	return true
}
