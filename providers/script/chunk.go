package script

import (
	"encoding/json"
	"fmt"
	"unicode"
)

// Chunk says how a text is split into deltas. In a script it is a number of bytes, "byte", "word" or "whole".
//
// A cut within a character moves behind it, because a delta on the wire is valid text; a provider that receives single bytes holds
// back incomplete characters in the same way.
type Chunk struct {
	Word bool
	Size int // bytes; 0: the whole text
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Chunk) UnmarshalJSON(b []byte) error {
	*c = Chunk{}
	var name string
	if json.Unmarshal(b, &c.Size) == nil {
		if c.Size <= 0 {
			return fmt.Errorf("chunk: a size is at least 1, not %d", c.Size)
		}
		return nil
	}
	_ = json.Unmarshal(b, &name) // a value that is not a string is no name
	switch name {
	case "whole":
	case "byte":
		c.Size = 1
	case "word":
		c.Word = true
	default:
		return fmt.Errorf("chunk: %s is no number and none of whole, byte, word", b)
	}
	return nil
}

// cut returns the parts of s, whose concatenation is s. No part is empty, and an empty s has none.
func (c *Chunk) cut(s string) []string {
	if s == "" {
		return nil
	}
	if c == nil {
		return []string{s}
	}
	if c.Word {
		return cutWords(s)
	}
	if c.Size == 0 {
		return []string{s}
	}
	var out []string
	for len(s) > 0 {
		n := min(c.Size, len(s))
		for !isBoundary(s, n) {
			n++
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

// cutWords splits before each space that follows another character, as models do.
func cutWords(s string) []string {
	var out []string
	start, afterWord := 0, false
	for i, r := range s {
		space := unicode.IsSpace(r)
		if space && afterWord {
			out = append(out, s[start:i])
			start = i
		}
		afterWord = !space
	}
	return append(out, s[start:])
}
