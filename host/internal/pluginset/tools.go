package pluginset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Load adds the tools of all plugins to the catalogue, in parallel: from the last tool set that a plugin sent with the same
// configuration, else from its manifest, else by starting it. A tool set that a running plugin sends replaces these tools. A plugin that
// can't be used is left out until the next call; broken has a notice about it.
func (s *Set) Load(ctx context.Context) (broken map[string]event.Notice) {
	type loaded struct {
		label        string
		instructions string
		set          contract.ToolSet
		err          error
	}
	// One call at a time: the next one finds the tools loaded.
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return nil
	}
	results := make(chan loaded, len(s.backends))
	var work sync.WaitGroup
	for label, backend := range s.backends {
		s.mu.Lock()
		known := s.mu.loaded[label]
		s.mu.Unlock()
		if known {
			continue
		}
		work.Go(func() {
			r := loaded{label: label}
			defer func() { results <- r }()
			m, err := s.plugins.Slot(label).Manifest(ctx)
			if err != nil {
				r.err = err
				return
			}
			s.learn(label, m)
			block := []byte("{}")
			if b, ok := s.cfg.Config.Plugin(label); ok {
				// Report an error in the block before the model is offered tools that can't work.
				var ds config.Diagnostics
				if block, ds = b.Check(m); ds.HasErrors() {
					r.err = ds.Err()
					return
				}
			}
			r.instructions = m.Instructions
			known := false
			r.set, known = backend.Known(block)
			if required := requiredSources(r.set); len(required) > 0 {
				// The first turn waits for them, so wait for the set of the running plugin.
				if r.set, r.err = firstSet(ctx, backend); r.err != nil {
					r.set = contract.ToolSet{Sources: failed(required, r.err)}
				}
				return
			}
			if known {
				for i := range r.set.Sources {
					r.set.Sources[i].State, r.set.Sources[i].Message = contract.SourceStarting, "" // they start with the plugin
				}
				return
			}
			r.set = contract.ToolSet{Revision: m.Digest(), Tools: m.Tools}
			if len(m.Tools) == 0 {
				r.set, r.err = firstSet(ctx, backend)
			}
		})
	}
	work.Wait()
	close(results)
	broken = map[string]event.Notice{}
	for r := range results {
		if r.err != nil {
			text, next := hint.Split(r.err)
			broken[r.label] = event.Notice{Level: "error", Text: placed(r.err, text), Next: next}
			if len(r.set.Sources) > 0 && ctx.Err() == nil { // otherwise it is the caller who has given up
				s.setTools(r.label, r.set, false)
			}
			continue
		}
		s.mu.Lock()
		s.mu.loaded[r.label] = true
		s.mu.instructions[r.label] = r.instructions
		s.mu.Unlock()
		s.setTools(r.label, r.set, false)
		s.FailSources(r.label) // the plugin may have crashed since it sent the set
	}
	s.cfg.OnSources()
	return broken
}

// setTools replaces a plugin's tools in the catalogue; [Set.Warnings] reports the ones that are left out. A cached set, which is not
// live, does not replace a live one.
func (s *Set) setTools(label string, set contract.ToolSet, live bool) {
	s.cataloguing.Lock()
	defer s.cataloguing.Unlock()
	if s.live[label] && !live {
		return
	}
	s.live[label] = live
	set.Sources = slices.Clone(set.Sources)
	for i := range set.Sources { // a server may repeat what it was sent
		m := &set.Sources[i]
		m.Title, m.Message, m.Description = s.cfg.Redactor.Text(m.Title), s.cfg.Redactor.Text(m.Message), s.cfg.Redactor.Text(m.Description)
	}
	problems := s.registry.Set(label, set)
	leftOut := make([]contract.Diagnostic, len(problems))
	for i, p := range problems {
		text, next := hint.Split(p)
		leftOut[i] = contract.Diagnostic{Severity: contract.SeverityWarning, Summary: strings.ReplaceAll(text, "\n", "; "), Next: next}
	}
	s.mu.Lock()
	s.mu.leftOut[label] = leftOut
	s.mu.Unlock()
}

// Warnings returns notices about what plugins report about their blocks, tools that are left out, and sources whose tools are missing.
// Required sources are included only if required is set.
func (s *Set) Warnings(required bool) (out []event.Notice) {
	slots, lost := s.plugins.Slots(), s.lostSources(required)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range slots {
		label := slot.State().Plugin
		for _, d := range slices.Concat(slot.Warnings(), s.mu.leftOut[label], lost[label]) {
			text := fmt.Sprintf("plugin %q: %s", label, d.Summary)
			if d.Detail != "" {
				text += " (" + d.Detail + ")"
			}
			out = append(out, event.Notice{Level: "warning", Text: s.cfg.Redactor.Text(text), Next: s.cfg.Redactor.Text(d.Next)})
		}
	}
	return out
}

// Follow keeps the tools of a running plugin up to date. It returns when the plugin's process or ctx ends, or at once for a provider.
// changed is called after each change.
func (s *Set) Follow(ctx context.Context, label string, changed func()) {
	backend, ok := s.backends[label]
	if !ok {
		return
	}
	err := backend.Watch(ctx, func(set contract.ToolSet) {
		s.setTools(label, set, true)
		changed()
	})
	s.FailSources(label) // after the last set that the process sent
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Debug("watch ended", "plugin", label, "err", err)
	}
}

// Instructions returns the instructions of the tool plugins whose manifest is known.
func (s *Set) Instructions() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, b := range s.cfg.Config.Plugins {
		if text := s.mu.instructions[b.Label]; text != "" {
			out = append(out, "## "+b.Label+"\n"+text)
		}
	}
	return strings.Join(out, "\n\n")
}

// Changes returns notices about plugins that have broken, or broken in another way, or work again since the last call of [Set.Load].
func Changes(last, now map[string]event.Notice) (out []event.Notice) {
	for _, label := range slices.Sorted(maps.Keys(now)) {
		if was, known := last[label]; !known || withoutDigits(was) != withoutDigits(now[label]) {
			out = append(out, now[label])
		}
	}
	for _, label := range slices.Sorted(maps.Keys(last)) {
		if _, still := now[label]; !still {
			out = append(out, event.Notice{Level: "info", Text: fmt.Sprintf("plugin %q works again", label)})
		}
	}
	return out
}

// withoutDigits returns the text of a notice without numbers: those of folders and processes differ from one start to the next.
func withoutDigits(n event.Notice) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, n.Text+n.Next)
}

// placed returns the message of an error, preceded by the place of the plugin's block.
func placed(err error, message string) string {
	if e, ok := errors.AsType[*plugin.Error](err); ok && e.Where != "" {
		return e.Where + ": " + message
	}
	return message
}

// firstSet starts a plugin and waits for its first tool set.
func firstSet(ctx context.Context, backend *tool.Client) (set contract.ToolSet, err error) {
	err = RetryCrash(func() (err error) {
		set, err = watchOnce(ctx, backend)
		return err
	})
	return set, err
}

func watchOnce(ctx context.Context, backend *tool.Client) (contract.ToolSet, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first *contract.ToolSet
	err := backend.Watch(ctx, func(set contract.ToolSet) {
		if first == nil {
			first = &set
		}
		cancel()
	})
	if first != nil {
		return *first, nil
	}
	if err == nil {
		err = fmt.Errorf("the plugin exited before it sent its tools")
	}
	return contract.ToolSet{}, err
}
