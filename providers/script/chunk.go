package script

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Chunk says how a text is cut into deltas. In a script it is a number of bytes, a list of numbers that are used in
// turn, one of "whole", "byte", "rune", "word", "line", or an object with these fields.
//
// A cut that falls into a character moves behind it, since a delta on the wire is valid text; a provider that receives
// single bytes holds back the beginning of a character in the same way. Raw cuts where it says.
type Chunk struct {
	By    string `json:"by,omitempty"`    // "rune", "word", "line"
	Sizes []int  `json:"sizes,omitempty"` // bytes
	Raw   bool   `json:"raw,omitempty"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Chunk) UnmarshalJSON(b []byte) error {
	*c = Chunk{}
	var n int
	var name string
	switch {
	case json.Unmarshal(b, &n) == nil:
		c.Sizes = []int{n}
	case json.Unmarshal(b, &c.Sizes) == nil:
	case json.Unmarshal(b, &name) == nil:
		c.Sizes = nil
		c.By = name
		switch name {
		case "whole":
			c.By = ""
		case "byte":
			c.By, c.Sizes = "", []int{1}
		}
	default:
		type plain Chunk
		c.Sizes = nil
		if err := strict(b, (*plain)(c)); err != nil {
			return fmt.Errorf("chunk: %w", err)
		}
	}
	return c.validate()
}

func (c *Chunk) validate() error {
	if c == nil {
		return nil
	}
	switch c.By {
	case "", "rune", "word", "line":
	default:
		return fmt.Errorf("chunk: %q is none of whole, byte, rune, word, line", c.By)
	}
	for _, n := range c.Sizes {
		if n <= 0 {
			return fmt.Errorf("chunk: a size is at least 1, not %d", n)
		}
	}
	if c.By != "" && len(c.Sizes) > 0 {
		return fmt.Errorf("chunk: either by or sizes")
	}
	return nil
}

// cut returns the pieces of s. Joined they are s; none is empty unless s is, which has no pieces.
func (c *Chunk) cut(s string) []string {
	if s == "" {
		return nil
	}
	if c == nil {
		return []string{s}
	}
	switch c.By {
	case "rune":
		return cutRunes(s)
	case "word":
		return cutWords(s)
	case "line":
		return cutLines(s)
	}
	return cutSizes(s, c.Sizes, c.Raw)
}

func cutRunes(s string) []string {
	out := make([]string, 0, utf8.RuneCountInString(s))
	for len(s) > 0 {
		_, n := utf8.DecodeRuneInString(s)
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

// cutWords cuts before each space that follows something else, as models do.
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

func cutLines(s string) []string {
	var out []string
	for line := range strings.Lines(s) {
		out = append(out, line)
	}
	return out
}

func cutSizes(s string, sizes []int, raw bool) []string {
	if len(sizes) == 0 {
		return []string{s}
	}
	var out []string
	for i := 0; len(s) > 0; i++ {
		n := min(sizes[i%len(sizes)], len(s))
		for !raw && !isBoundary(s, n) {
			n++
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}
