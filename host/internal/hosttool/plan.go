package hosttool

import (
	"context"
	"encoding/json"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// updatePlan returns the tool with which a model shows its user what it plans to do, and how far it has come. The plan is the item of
// the call: nothing else keeps it.
func updatePlan() Tool {
	return Tool{
		Label: LabelPrefix + "plan",
		Descriptor: contract.Descriptor{
			Name: "update_plan", ReadOnly: true,
			Description: "Shows the user the steps of your plan and how far you are. Each call replaces the plan. Use it for work of several steps, " +
				"and keep one step in_progress at a time.",
			InputSchema: json.RawMessage(`{"additionalProperties":false,"properties":{` +
				`"explanation":{"type":"string"},` +
				`"plan":{"items":{"additionalProperties":false,"properties":{` +
				`"status":{"enum":["pending","in_progress","completed"],"type":"string"},"step":{"type":"string"}},` +
				`"required":["step","status"],"type":"object"},"type":"array"}},"required":["plan"],"type":"object"}`),
		},
		Offer: func(c Conditions) Offer {
			if c.Unattended || !c.Plan {
				return Absent
			}
			return Offered
		},
		HostTool: orchestrate.HostTool{Backend: Func(runPlan).Backend, ItemType: event.ItemPlan},
	}
}

// runPlan has nothing to do: the arguments have been checked, and the item has them.
func runPlan(context.Context, *orchestrate.HostCall, contract.Input) (*contract.Result, error) {
	return &contract.Result{Parts: []contract.Part{&contract.TextPart{Text: "Plan updated"}}, Structured: json.RawMessage(`{}`)}, nil
}
