package appserver

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// FuzzCursorOf checks that a cursor of a list of threads is refused as such, or continues at the place that it names.
func FuzzCursorOf(f *testing.F) {
	for _, text := range []string{"", "zzz", "1_", "_a", "1795864069000000000_01a221d7-05d9-771d-a1a3-0ae4878db86c", "-1_a_b", "9223372036854775808_a"} {
		f.Add(text)
		f.Add(backwards + text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, inclusive, err := cursorOf(protocol.Page{Cursor: &text})
		if err != nil {
			if e, ok := errors.AsType[*rpc.Error](err); !ok || e.Code != rpc.InvalidRequest || !strings.HasPrefix(e.Message, "invalid cursor: ") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again := c.String()
		if inclusive {
			again = backwards + again
		}
		same, both, err := cursorOf(protocol.Page{Cursor: &again})
		if err != nil || same.String() != c.String() || both != inclusive {
			t.Fatalf("%q: %q %v, then %q %v, %v", text, c, inclusive, same, both, err)
		}
	})
}
