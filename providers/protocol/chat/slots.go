package chat

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// slots are the calls of a response with the indices that the vendor assigns. Some vendors omit the index, use the same one for
// all calls, or change it midway, so the ID takes precedence if there is one.
type slots struct {
	list   []*slot // in order of appearance
	latest *slot   // the one that was written to last
}

// slot is a call. Until its ID and name are known, the arguments are held here.
type slot struct {
	key   string // its index in list
	index int
	id    string
	name  string
	args  strings.Builder
	told  int // bytes of args that were emitted
	extra json.RawMessage
}

// of returns the call that a part belongs to, or starts one. at is the part's index among the n parts of its chunk.
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
		return nil // another ID at this index: another call
	}
	return c
}

// indexed returns the latest call with this index.
func (s *slots) indexed(index int) *slot {
	for i := len(s.list) - 1; i >= 0; i-- {
		if s.list[i].index == index {
			return s.list[i]
		}
	}
	return nil
}

// stray finds the call for arguments at an unused index without a name or an ID: the only call, unless it is complete or has no
// name itself.
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

// nameless reports whether a call has arguments but no name or ID.
func (s *slots) nameless() bool {
	for _, c := range s.list {
		if (c.id == "" || c.name == "") && (c.id != "" || c.name != "" || c.args.Len() > 0) {
			return true
		}
	}
	return false
}

// write adds a part, and emits it as soon as the call is known.
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
	dst, _ = calls.Append(dst, s.key, rest) // a call whose ID was used before is not emitted
	return dst
}

func (s *slot) meta(r *protocol.Request) protocol.Meta {
	if s.extra == nil {
		return nil
	}
	return r.Stamped(protocol.Meta{metaExtra: s.extra})
}

// speaks reports whether any part of a call has content.
func speaks(calls []toolDelta) bool {
	for _, c := range calls {
		if c.ID != "" || c.Function.Name != "" || c.Function.Arguments != "" {
			return true
		}
	}
	return false
}
