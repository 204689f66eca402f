package chat

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// slots are the calls of one answer, each with the index that its vendor gives it. Vendors leave the index out, use one
// for all, or change it in the middle, so that the id says more where there is one.
type slots struct {
	list   []*slot // in order of appearance
	latest *slot   // the one that was written to last
}

// slot is one call. Until id and name are known its arguments wait here.
type slot struct {
	key   string // its place in list
	index int
	id    string
	name  string
	args  strings.Builder
	told  int // bytes of args that were told
	extra json.RawMessage
}

// of finds the call that a piece belongs to, or begins one. at is the piece's place among the n pieces of its chunk.
func (s *slots) of(in *toolDelta, at, n int) *slot {
	found := s.find(in, at, n)
	if found == nil {
		found = &slot{key: strconv.Itoa(len(s.list)), index: in.Index.n}
		if !in.Index.set {
			found.index = at
			if n == 1 {
				found.index = len(s.list)
			}
		}
		s.list = append(s.list, found)
	}
	s.latest = found
	return found
}

func (s *slots) find(in *toolDelta, at, n int) *slot {
	if in.ID != "" {
		for _, c := range s.list {
			if c.id == in.ID {
				return c
			}
		}
	}
	var c *slot
	switch {
	case in.Index.set:
		if c = s.indexed(in.Index.n); c == nil {
			return s.stray(in)
		}
	case n > 1:
		c = s.indexed(at)
	default:
		c = s.latest
	}
	if c != nil && in.ID != "" && c.id != "" {
		return nil // another id at this place: another call
	}
	return c
}

// indexed is the latest call with this index.
func (s *slots) indexed(index int) *slot {
	for i := len(s.list) - 1; i >= 0; i-- {
		if s.list[i].index == index {
			return s.list[i]
		}
	}
	return nil
}

// stray finds where arguments belong that come at an index nobody has used, without a name or an id: to the only call
// there is, unless that one is complete, or is itself one that nobody has named yet.
func (s *slots) stray(in *toolDelta) *slot {
	if in.ID != "" || in.Function.Name != "" || len(s.list) != 1 {
		return nil
	}
	if only := s.list[0]; only.id != "" && only.name != "" && !json.Valid([]byte(only.args.String())) {
		return only
	}
	return nil
}

func (s *slots) at(key string) *slot {
	i, err := strconv.Atoi(key)
	if err != nil || i >= len(s.list) {
		panic("chat: no slot has the key " + key)
	}
	return s.list[i]
}

// nameless tells that a call has arguments, but nobody said which call it is.
func (s *slots) nameless() bool {
	for _, c := range s.list {
		if (c.id == "" || c.name == "") && (c.id != "" || c.name != "" || c.args.Len() > 0) {
			return true
		}
	}
	return false
}

// write adds a piece, and tells it as soon as the call is known.
func (s *slot) write(dst []llm.Event, calls *protocol.Calls, in *toolDelta) []llm.Event {
	s.args.WriteString(string(in.Function.Arguments))
	if said(in.ExtraContent) && s.extra == nil {
		s.extra = append(json.RawMessage(nil), in.ExtraContent...)
	}
	if s.id == "" || s.name == "" {
		if s.id == "" {
			s.id = in.ID
		}
		if s.name == "" {
			s.name = in.Function.Name
		}
		if s.id == "" || s.name == "" {
			return dst
		}
		dst = calls.Start(dst, s.key, llm.ToolCall{ID: s.id, Name: s.name}, nil)
	}
	rest := s.args.String()[s.told:]
	s.told = s.args.Len()
	dst, _ = calls.Append(dst, s.key, rest) // a call whose id was used before is not told
	return dst
}

func (s *slot) meta(r *protocol.Request) protocol.Meta {
	if s.extra == nil {
		return nil
	}
	return r.Stamped(protocol.Meta{metaExtra: s.extra})
}

// speaks tells that pieces of calls say anything.
func speaks(calls []toolDelta) bool {
	for _, c := range calls {
		if c.ID != "" || c.Function.Name != "" || c.Function.Arguments != "" {
			return true
		}
	}
	return false
}
