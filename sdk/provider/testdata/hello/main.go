// Command hello is the smallest provider: what a start costs at least.
package main

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

type hello struct{}

func (hello) Models(context.Context) ([]llm.ModelRow, error) {
	return []llm.ModelRow{{ID: "hello"}}, nil
}

func (hello) Prepare(context.Context, *llm.Request) (*provider.Prepared, error) {
	return nil, errors.New("there is no request to show")
}

func (hello) Stream(_ context.Context, _ *provider.StreamRequest, emit func(llm.Event) error) error {
	return errors.Join(emit(llm.StepStart{}), emit(llm.StepFinish{Reason: llm.FinishStop}), emit(llm.Finish{Reason: llm.FinishStop}))
}

func main() {
	provider.Main(provider.Plugin{
		Name: "hello", Version: "1.0.0", Description: "Says nothing.",
		New: func(context.Context, provider.Env) (provider.Provider, error) { return hello{}, nil },
	})
}
