package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// callIDs rewrites call IDs for models with special requirements. An ID depends only on the preceding calls, so that a growing
// history keeps its IDs, and two IDs never become equal.
type callIDs struct {
	rule string // "mistral", "claude", "openai"; empty: unchanged
	to   map[string]string
	used map[string]bool
}

// Lengths that models require.
const (
	mistralID = 9
	openaiID  = 40
)

func (c *callIDs) of(id string) string {
	if c.rule == "" {
		return id
	}
	if out, ok := c.to[id]; ok {
		return out
	}
	if c.to == nil {
		c.to, c.used = map[string]string{}, map[string]bool{}
	}
	out := c.rewritten(id)
	for n := 0; c.used[out]; n++ {
		sum := sha256.Sum256([]byte(strconv.Itoa(n) + ":" + id))
		digest := hex.EncodeToString(sum[:])[:mistralID]
		out = digest
		if c.rule != "mistral" {
			// Keep part of the ID for readers of logs.
			out = c.rewritten(id)
			out = out[:min(len(out), openaiID-1-len(digest))] + "_" + digest
		}
	}
	c.to[id], c.used[out] = out, true
	return out
}

func (c *callIDs) rewritten(id string) string {
	switch c.rule {
	case "mistral":
		id = strings.Map(func(r rune) rune {
			if alphanumeric(r) {
				return r
			}
			return -1
		}, id)
		id = id[:min(len(id), mistralID)]
		return id + strings.Repeat("0", mistralID-len(id))
	case "claude":
		id = strings.Map(func(r rune) rune {
			if alphanumeric(r) || r == '_' || r == '-' {
				return r
			}
			return '_'
		}, id)
		if id == "" {
			return "_"
		}
		return id
	case "openai":
		return strings.ToValidUTF8(id[:min(len(id), openaiID)], "")
	}
	return id
}

func alphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
