package tool

import (
	"context"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// RunForTest runs a tool without a server around it.
func RunForTest(t Tool, in contract.Input) error {
	_, err := t.run(context.Background(), &Call{}, in)
	return err
}
