package turn

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// warnOfSchema warns if the last message does not match the turn's output schema. Most vendors enforce it; for the others, the
// warning comes before a program fails on the message.
func (r *runner) warnOfSchema(ctx context.Context, last string) {
	if r.model.Request.OutputSchema == nil {
		return
	}
	if err := checkSchema(last, r.model.Request.OutputSchema); err != nil {
		r.notice(ctx, event.Notice{
			Level: "warning", Text: fmt.Sprintf("the last message does not follow the output schema: %v", err),
			Next: "Use a model whose vendor supports output schemas, or say in the task what form the answer has.",
		})
	}
}

// checkSchema returns why a text does not match a schema. If only the vendor understands the schema, the text has to be valid JSON.
func checkSchema(text string, schema json.RawMessage) error {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return fmt.Errorf("it is not valid JSON: %w", err)
	}
	s, err := contract.ParseSchema(schema)
	if err != nil {
		return nil
	}
	form, err := contract.Compile(s)
	if err != nil {
		return nil
	}
	return form.Validate(v)
}
