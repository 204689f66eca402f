package turn_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Whoever wants an answer of a certain form is told where it has another one.
func TestAnswersOfACertainForm(t *testing.T) {
	const number = `{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}`
	for _, tc := range []struct{ schema, answer, want string }{
		{number, `{"n": 1}`, ""},
		{number, `{"n": "1"}`, "n"},
		{number, `{}`, "n"},
		{number, "one", "it is not valid JSON"},
		{"", "one", ""},
		{`{"type": 5}`, "one", "it is not valid JSON"},
		{`{"type": 5}`, "1", ""},
		{`{"$ref": "https://example.com/schema"}`, "1", ""},
	} {
		var said []llm.Part
		if tc.answer != "" {
			said = append(said, turntest.Text(tc.answer))
		}
		b := turntest.New(turntest.Say(said...))
		if tc.schema != "" {
			b.Schema = []byte(tc.schema)
		}
		completed(t, b.Run(t, t.Context(), "go"))
		got := strings.Join(warnings(b), "\n")
		if (got == "") != (tc.want == "") || tc.want != "" && (!strings.Contains(got, "does not follow the output schema") || !strings.Contains(got, tc.want)) {
			t.Errorf("%s of %s: %q, want %q", tc.answer, tc.schema, got, tc.want)
		}
	}
}
