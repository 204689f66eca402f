package event

import "encoding/json"

// Plan is what a model plans to do, as it has written it down for its user. Each plan replaces the one before it.
type Plan struct {
	Explanation string     `json:"explanation,omitempty"`
	Steps       []PlanStep `json:"plan"`
}

// PlanStep is a step of a [Plan].
type PlanStep struct {
	Step   string         `json:"step"`
	Status PlanStepStatus `json:"status"`
}

// PlanStepStatus is the status of a [PlanStep].
type PlanStepStatus string

// The statuses of steps.
const (
	StepPending    PlanStepStatus = "pending"
	StepInProgress PlanStepStatus = "in_progress"
	StepCompleted  PlanStepStatus = "completed"
)

// Plan returns the plan of a completed item; false: it has none, because it is another one or its call has failed.
func (it Item) Plan() (Plan, bool) {
	var p Plan
	if it.Type != ItemPlan || it.Status != StatusCompleted || json.Unmarshal(it.Arguments, &p) != nil {
		return Plan{}, false
	}
	return p, true
}
