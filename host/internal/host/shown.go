package host

import (
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// shown is the output of a session as everybody may see it: without secrets. It belongs to the stream of its plugin.
type shown struct {
	text *redact.Stream
	read int64 // what has come, counted as the plugin does
	at   int64 // what was shown
	end  string
}

// maxShownEnd is what is remembered of the end of a session's output: errors stand there.
const maxShownEnd = 4 << 10

// output shows what has come of a session's output and is no secret.
func (s *sessions) output(label string, ev contract.SessionOutput) {
	s.mu.Lock()
	if slices.Contains(s.mu.over[label], ev.SessionID) { // said of one whose end was told, by a process that took it over
		s.mu.Unlock()
		return
	}
	of := s.mu.shown[label]
	if of == nil {
		of = map[string]*shown{}
		s.mu.shown[label] = of
	}
	o := of[ev.SessionID]
	if o == nil {
		o = &shown{text: s.host.redactor().Stream(), read: ev.Offset, at: ev.Offset}
		of[ev.SessionID] = o
		if len(of) > 2*maxSessions { // of a plugin that shows what it has not announced
			clear(of)
		}
	}
	s.mu.Unlock()
	if again := o.read - ev.Offset; again > 0 { // a process that took the session over begins with what it knows
		if again >= int64(len(ev.Data)) {
			return
		}
		ev.Offset, ev.Data = o.read, ev.Data[again:]
	}
	if lost := ev.Offset - o.read; lost != 0 { // it dropped some: what was held back does not go on here
		s.show(label, ev.SessionID, o, o.text.End())
		o.at += lost
	}
	o.read = ev.Offset + int64(len(ev.Data))
	s.show(label, ev.SessionID, o, o.text.Write(string(ev.Data)))
}

// outputEnds shows what was held back, and returns the end of all that was shown.
func (s *sessions) outputEnds(label, id string) (end string) {
	s.mu.Lock()
	o := s.mu.shown[label][id]
	delete(s.mu.shown[label], id)
	s.mu.Unlock()
	if o != nil {
		s.show(label, id, o, o.text.End())
		end = o.end
	}
	return end
}

func (s *sessions) show(label, id string, o *shown, text string) {
	if text == "" {
		return
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	s.publish(label, event.SessionOutput{Session: id, Offset: o.at, Text: text})
	o.at += int64(len(text))
	o.end += text
	if over := len(o.end) - maxShownEnd; over > 0 {
		o.end = strings.Clone(strings.ToValidUTF8(o.end[over:], ""))
	}
}
