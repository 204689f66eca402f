package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
)

// window is how many of the last actions are compared.
const window = 20

// repeats notices that a run goes in circles. Its fields are those of a checkpoint.
type repeats struct {
	Hashes []string `json:"hashes,omitempty"` // of the last actions
	Print  string   `json:"print,omitempty"`  // of the last page
	Same   int      `json:"same,omitempty"`   // how many steps in a row have had that page
}

// unnoticed are actions that may be repeated.
var unnoticed = []string{"wait", "wait_for", "done", "go_back"}

// action takes note of an action.
func (r *repeats) action(a history.Action) {
	if slices.Contains(unnoticed, a.Name) {
		return
	}
	r.Hashes = append(r.Hashes, actionHash(a))
	r.Hashes = r.Hashes[max(0, len(r.Hashes)-window):]
}

// page takes note of a page.
func (r *repeats) page(p Page) {
	sum := sha256.Sum256([]byte(p.Text))
	print := fmt.Sprintf("%s|%d|%s", p.URL, p.Elements, hex.EncodeToString(sum[:8]))
	if print == r.Print {
		r.Same++
		return
	}
	r.Print, r.Same = print, 1
}

// note returns what the model is told about it; "": nothing.
func (r *repeats) note() string {
	count := map[string]int{}
	most := 0
	for _, h := range r.Hashes {
		count[h]++
		most = max(most, count[h])
	}
	var out []string
	switch {
	case most >= 12:
		out = append(out, fmt.Sprintf("You have done the same thing %d times in your last %d actions. It does not work, and it will not. Do something else now: another way to the same goal, another page, or done with what you have.", most, len(r.Hashes)))
	case most >= 8:
		out = append(out, fmt.Sprintf("You have done the same thing %d times in your last %d actions. If it has brought you no further, change your approach.", most, len(r.Hashes)))
	case most >= 5:
		out = append(out, fmt.Sprintf("You have done the same thing %d times in your last %d actions. That can be right; make sure that each time brings you further.", most, len(r.Hashes)))
	}
	if r.Same >= 5 {
		out = append(out, fmt.Sprintf("The page has not changed for %d steps. What you do may have no effect: check whether something covers it, whether it needs another element, or whether you are on the right page.", r.Same))
	}
	return strings.Join(out, "\n")
}

// actionHash returns a hash that is the same for actions that amount to the same.
func actionHash(a history.Action) string {
	sum := sha256.Sum256([]byte(normal(a)))
	return hex.EncodeToString(sum[:6])
}

// normal returns the part of an action that matters.
func normal(a history.Action) string {
	var in struct {
		Index       *int
		Text        string
		Query       string
		Engine      string
		URL         string
		Down        *bool
		CoordinateX *float64 `json:"coordinate_x"`
		CoordinateY *float64 `json:"coordinate_y"`
	}
	if json.Unmarshal(a.Args, &in) != nil {
		return a.Name + "|" + string(a.Args)
	}
	index := "None"
	if in.Index != nil {
		index = strconv.Itoa(*in.Index)
	}
	switch a.Name {
	case "search":
		if in.Engine == "" {
			in.Engine = "duckduckgo"
		}
		words := strings.FieldsFunc(strings.ToLower(in.Query), func(r rune) bool { return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127) })
		slices.Sort(words)
		return "search|" + in.Engine + "|" + strings.Join(slices.Compact(words), "|")
	case "click":
		if in.Index == nil && in.CoordinateX != nil && in.CoordinateY != nil {
			return fmt.Sprintf("click|%g,%g", *in.CoordinateX, *in.CoordinateY)
		}
		return "click|" + index
	case "input":
		return "input|" + index + "|" + strings.ToLower(strings.TrimSpace(in.Text))
	case "navigate":
		return "navigate|" + in.URL
	case "scroll":
		if in.Down != nil && !*in.Down {
			return "scroll|up|" + index
		}
		return "scroll|down|" + index
	}
	return a.Name + "|" + spaced(a.Args)
}

// spaced writes JSON with sorted keys, with a space after colons and commas, ASCII only and without what is null, as the hashes of other
// programs have it.
func spaced(b json.RawMessage) string {
	b = bytes.TrimSpace(b)
	var out strings.Builder
	switch {
	case len(b) == 0:
	case b[0] == '{':
		var object map[string]json.RawMessage
		_ = json.Unmarshal(b, &object) // it has been parsed before
		out.WriteByte('{')
		for _, k := range slices.Sorted(maps.Keys(object)) {
			if string(object[k]) == "null" {
				continue
			}
			if out.Len() > 1 {
				out.WriteString(", ")
			}
			out.WriteString(quoted(k) + ": " + spaced(object[k]))
		}
		out.WriteByte('}')
	case b[0] == '[':
		var list []json.RawMessage
		_ = json.Unmarshal(b, &list)
		for i := range list {
			list[i] = json.RawMessage(spaced(list[i]))
		}
		out.WriteString("[" + string(bytes.Join(raw(list), []byte(", "))) + "]")
	case b[0] == '"':
		var s string
		_ = json.Unmarshal(b, &s)
		out.WriteString(quoted(s))
	default:
		out.Write(b)
	}
	return out.String()
}

func raw(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can be encoded
	var out strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		switch {
		case r < 0x80:
			out.WriteRune(r)
		case r > 0xffff:
			a, b := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, a, b)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
