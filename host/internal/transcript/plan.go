package transcript

import (
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// planned reports the plan of an item, if it has one.
func planned(f *Fold, it event.Item) {
	p, ok := it.Plan()
	if !ok {
		return
	}
	steps := make([]protocol.TurnPlanStep, 0, len(p.Steps))
	for _, s := range p.Steps {
		is := protocol.StepPending
		switch s.Status {
		case event.StepInProgress:
			is = protocol.StepInProgress
		case event.StepCompleted:
			is = protocol.StepCompleted
		}
		steps = append(steps, protocol.TurnPlanStep{Step: s.Step, Status: is})
	}
	emit(f, protocol.NotifyTurnPlanUpdated, protocol.TurnPlanUpdatedNotification{
		ThreadID: f.thread(), TurnID: f.turnID(), Explanation: optional(p.Explanation), Plan: steps,
	})
}
