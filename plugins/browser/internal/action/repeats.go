package action

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// repeats notices that actions go in circles, and that the page stays the same.
type repeats struct {
	actions []string // the latest, in their normal form
	page    [sha256.Size]byte
	same    int // sequences in a row that began with this page
}

// window is the number of actions that are compared.
const window = 20

// normal returns the form in which two actions are the same; "": they may be repeated.
func normal(n Named) string {
	switch a := n.Args.(type) {
	case *Wait, *WaitFor:
		return ""
	case *Search:
		words := strings.Fields(strings.ToLower(a.Query))
		slices.Sort(words)
		return "search|" + a.Engine + "|" + strings.Join(slices.Compact(words), "|")
	case *Input:
		return fmt.Sprintf("input|%d|%s", a.Index, strings.ToLower(strings.TrimSpace(a.Text)))
	case *Scroll:
		return fmt.Sprintf("scroll|%v|%d", a.Down == nil || *a.Down, a.Index)
	}
	if slices.Contains([]string{"go_back", "go_forward", "switch", "close", "handle_dialog"}, n.Name) {
		return ""
	}
	b, err := json.Marshal(n.Args)
	if err != nil { // impossible: the arguments were parsed from JSON
		return ""
	}
	return n.Name + "|" + string(b)
}

// begin notes the page that the model sees as it begins a sequence.
func (r *repeats) begin(page string) {
	if sum := sha256.Sum256([]byte(page)); sum != r.page {
		r.page, r.same = sum, 0
	}
	r.same++
}

// did notes an action.
func (r *repeats) did(n Named) {
	if s := normal(n); s != "" {
		r.actions = append(r.actions, s)
		r.actions = r.actions[max(0, len(r.actions)-window):]
	}
}

// note returns advice if the latest action is one of many that are the same, or nothing has changed for long; "": neither.
func (r *repeats) note() string {
	n := 0
	if len(r.actions) > 0 {
		for _, a := range r.actions {
			if a == r.actions[len(r.actions)-1] {
				n++
			}
		}
	}
	switch {
	case n >= 12:
		return fmt.Sprintf("Note: this is the same action for the %dth time in %d. It does not lead on: stop it, and say what has been achieved and what has not.", n, len(r.actions))
	case n >= 8:
		return fmt.Sprintf("Note: this is the same action for the %dth time in %d. Try a different way: other elements, another page, a search.", n, len(r.actions))
	case n >= 5:
		return fmt.Sprintf("Note: this is the same action for the %dth time in %d. Is it making progress?", n, len(r.actions))
	case r.same >= 5:
		return fmt.Sprintf("Note: the page was the same at the start of the last %d calls. What was done has had no visible effect.", r.same)
	}
	return ""
}
