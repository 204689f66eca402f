package pluginthread

import (
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// output is the published part of a session's output, without secrets. It belongs to the stream of its plugin.
type output struct {
	text *redact.Stream
	read int64  // received bytes, as the plugin counts them
	at   int64  // published bytes
	end  string // the last published bytes
	head string // the first published bytes
}

// maxOutputEnd limits the end of a session's output that is kept, because it usually contains the error.
const maxOutputEnd = 4 << 10

// maxOutputHead limits the beginning of a session's output that is stored with the end of the session, in bytes, as the output of a
// call's item is limited.
const maxOutputHead = 64 << 10

// receive publishes new output of a session without secrets.
func (s *Thread) receive(label string, ev contract.SessionOutput) {
	s.mu.Lock()
	if slices.Contains(s.mu.over[label], ev.SessionID) { // a process that adopted the session does not know that it has exited
		s.mu.Unlock()
		return
	}
	of := s.mu.output[label]
	if of == nil {
		of = map[string]*output{}
		s.mu.output[label] = of
	}
	o := of[ev.SessionID]
	if o == nil {
		o = &output{text: s.cfg.Redactor.Stream(), read: ev.Offset, at: ev.Offset}
		of[ev.SessionID] = o
		if len(of) > 2*maxSessions { // the plugin sends output of sessions that it has not announced
			clear(of)
		}
	}
	s.mu.Unlock()
	if again := o.read - ev.Offset; again > 0 { // a process that adopted the session starts with output that it knows
		if again >= int64(len(ev.Data)) {
			return
		}
		ev.Offset, ev.Data = o.read, ev.Data[again:]
	}
	if lost := ev.Offset - o.read; lost != 0 { // the plugin dropped output, so the withheld text does not continue here
		s.show(label, ev.SessionID, o, o.text.End())
		o.at += lost
	}
	o.read = ev.Offset + int64(len(ev.Data))
	s.show(label, ev.SessionID, o, o.text.Write(string(ev.Data)))
}

// outputEnds publishes the withheld text, and returns the beginning and the end of the output.
func (s *Thread) outputEnds(label, id string) (head, end string) {
	s.mu.Lock()
	o := s.mu.output[label][id]
	delete(s.mu.output[label], id)
	s.mu.Unlock()
	if o != nil {
		s.show(label, id, o, o.text.End())
		head, end = o.head, o.end
	}
	return head, end
}

func (s *Thread) show(label, id string, o *output, text string) {
	if text == "" {
		return
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	s.publish(label, event.SessionOutput{Session: id, Offset: o.at, Text: text})
	o.at += int64(len(text))
	if room := maxOutputHead - len(o.head); len(text) <= room {
		o.head += text
	} else if room > 0 {
		o.head += strings.ToValidUTF8(text[:room], "")
	}
	o.end += text
	if over := len(o.end) - maxOutputEnd; over > 0 {
		o.end = strings.Clone(strings.ToValidUTF8(o.end[over:], ""))
	}
}
