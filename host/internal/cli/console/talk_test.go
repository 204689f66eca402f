package console_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// A form is filled in field by field, with what does not fit asked again, and is sent, filled in again, declined or dismissed.
func TestFormsAreFilledIn(t *testing.T) {
	t.Parallel()
	q := event.QuestionAsked{About: event.QuestionForm, Plugin: "mcp", Schema: json.RawMessage(`{"type":"object","properties":{
		"name":{"type":"string","minLength":2},"size":{"type":"integer","default":4},"sure":{"type":"boolean"},
		"colour":{"type":"string","enum":["red","blue"]},"many":{"type":"array","items":{"enum":["x","y"]}}},"required":["name"]}`)}
	full := `{"name":"ab","size":4,"sure":true,"colour":"blue","many":["x","y"]}`
	for _, tc := range []struct{ name, typed, choice, data string }{
		{"sent", "y|ab||y|2|1,2|y", approval.Approve, full},
		{"with mistakes", "x|y|a||ab||maybe|yes|blue|3|y,x|what|y", approval.Approve, `{"name":"ab","size":4,"sure":true,"colour":"blue","many":["y","x"]}`},
		{"what is optional is left out", "y|ab|9||||y", approval.Approve, `{"name":"ab","size":9}`},
		{"filled in again", "y|no||||| r|r|ab||y|2|1,2|y", approval.Approve, full},
		{"declined", "n", approval.Deny, ""}, {"dismissed", "q", approval.Dismiss, ""},
		{"declined at the end", "y|ab|||||n", approval.Deny, ""}, {"dismissed at the end", "y|ab|||||q", approval.Dismiss, ""},
		{"no more lines", "y|ab", approval.Deny, ""},
	} {
		var screen strings.Builder
		lines := strings.Split(tc.typed, "|")
		a, err := console.Talk{
			Say: func(s string) { screen.WriteString(s) },
			Read: func() (string, error) {
				if len(lines) == 0 {
					return "", io.EOF
				}
				line := strings.TrimSpace(lines[0])
				lines = lines[1:]
				return line, nil
			},
		}.Answer(q, nil)
		if err != nil || a.Choice != tc.choice || string(a.Data) != tc.data || len(lines) > 0 {
			t.Errorf("%s: %q %s, %v, %q not read, on the screen:\n%s", tc.name, a.Choice, a.Data, err, lines, screen.String())
		}
	}
}
