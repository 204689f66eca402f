package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// maxCallID is the longest id of a call that vendors take who are particular about it.
const maxCallID = 64

// CallIDs gives the calls of a history ids that vendors take: letters, digits, "_" and "-", each once. A call's id
// depends on nothing but the calls before it, so that a longer history begins with the same ids.
type CallIDs struct {
	open map[string][]string // id of the history → ids on the wire of its calls that have no result yet, in order
	used map[string]bool     // on the wire
}

// Call is the id of the next call. An id that the history uses again, as that of a vendor that numbers the calls of each
// answer anew, gets a number.
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

// Result is the id of the call that the next result of this id belongs to. ok is false when there is none.
func (c *CallIDs) Result(id string) (wire string, ok bool) {
	waiting := c.open[id]
	if len(waiting) == 0 {
		return "", false
	}
	c.open[id] = waiting[1:]
	return waiting[0], true
}

// wireCallID leaves alone what is fine. What has to be changed ends in a digest of the original: two ids never become
// one.
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
