package action

import (
	"context"
	"slices"

	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
	"github.com/gantry-agent/gantry/plugins/browser/internal/state"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// maxCandidates is the number of elements of a page that are compared.
const maxCandidates = 2000

// Candidates returns the numbered elements of a tab's state, with what they are recognized by.
func (s *Session) Candidates(ctx context.Context, t *target.Tab, st *state.State) ([]history.Candidate, error) {
	var numbers []int
	for _, l := range st.Lines {
		if l.Number > 0 && len(numbers) < maxCandidates {
			numbers = append(numbers, l.Number)
		}
	}
	return s.Identify(ctx, t, numbers)
}

// Identify returns what elements of the last state of a tab are recognized by. Those that are gone are left out.
func (s *Session) Identify(ctx context.Context, t *target.Tab, numbers []int) ([]history.Candidate, error) {
	type part struct {
		frame        *capture.Frame
		ids, numbers []int
	}
	var parts []*part
	for _, n := range numbers {
		f, id, err := s.element(t, n)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(parts, func(p *part) bool { return p.frame == f })
		if i < 0 {
			i = len(parts)
			parts = append(parts, &part{frame: f})
		}
		parts[i].ids, parts[i].numbers = append(parts[i].ids, id), append(parts[i].numbers, n)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, takeTime, ErrBusy)
	defer cancel()
	var out []history.Candidate
	err := t.Do(ctx, func(ctx context.Context) error {
		for _, p := range parts {
			found, err := p.frame.Identify(ctx, p.ids)
			if err != nil {
				return err
			}
			for i, e := range found {
				if !e.Gone {
					out = append(out, history.Candidate{Number: p.numbers[i], Identity: history.Identity{
						Path: e.Path, Attributes: e.Attributes, Name: e.Name, XPath: e.XPath, Frame: p.frame.ID,
					}})
				}
			}
		}
		return nil
	})
	return out, err
}

// Content returns what is seen of a tab whose state was read last.
func (s *Session) Content(ctx context.Context, t *target.Tab, token string, links, images bool) (capture.Content, error) {
	if _, err := s.Take(ctx, t); err != nil {
		return capture.Content{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*takeTime, ErrBusy)
	defer cancel()
	var out capture.Content
	err := t.Do(ctx, func(ctx context.Context) (err error) {
		out, err = s.View(t).page.Content(ctx, token, links, images)
		return err
	})
	return out, err
}
