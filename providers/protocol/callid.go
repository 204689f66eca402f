package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// maxCallID is the maximum length of a call ID for vendors that limit it.
const maxCallID = 64

// CallIDs maps the call IDs of a history to unique IDs that vendors accept: letters, digits, "_" and "-". An ID depends only on
// the preceding calls, so that a longer history begins with the same IDs.
type CallIDs struct {
	open map[string][]string // ID in the history → IDs on the wire of its calls without a result, in order
	used map[string]bool     // on the wire
}

// Call returns the ID of the next call. If the history repeats an ID, because a vendor numbers the calls of each response from the
// start, a number is appended.
func (c *CallIDs) Call(id string) string {
	if c.used == nil {
		c.used, c.open = map[string]bool{}, map[string][]string{}
	}
	wire := wireCallID(id)
	for n := 2; c.used[wire]; n++ {
		wire = wireCallID(id + "#" + strconv.Itoa(n))
	}
	c.used[wire] = true
	c.open[id] = append(c.open[id], wire)
	return wire
}

// Result returns the ID of the call that the next result with this ID belongs to. ok is false if there is none.
func (c *CallIDs) Result(id string) (wire string, ok bool) {
	waiting := c.open[id]
	if len(waiting) == 0 {
		return "", false
	}
	c.open[id] = waiting[1:]
	return waiting[0], true
}

// wireCallID returns valid IDs unchanged. Others are changed and end with a digest of the original, so that two IDs never become
// equal.
func wireCallID(id string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, id)
	if clean == id && id != "" && len(id) <= maxCallID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	suffix := "_" + hex.EncodeToString(sum[:6])
	return clean[:min(len(clean), maxCallID-len(suffix))] + suffix
}
