package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// performance executes the actions of a response in order.
type performance struct {
	ctx  context.Context
	emit func(llm.Event) error
	end  func(how string, code int) error
	step string
}

func (p *performance) perform(actions []script.Action) error {
	for _, a := range actions {
		var err error
		switch a := a.(type) {
		case script.Emit:
			err = p.emit(a.Event)
		case script.Wait:
			err = p.wait(a.For)
		case script.Halt:
			return p.halt(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *performance) wait(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

func (p *performance) halt(h script.Halt) error {
	switch h.How {
	case "eof":
		return nil
	case "hang":
		<-p.ctx.Done()
		return context.Cause(p.ctx)
	}
	if h.How == "panic" {
		panic("the script asked for a panic in step " + p.step)
	}
	if err := p.end(h.How, h.Code); err != nil {
		return fmt.Errorf("script: %s this process: %w", h.How, err)
	}
	<-p.ctx.Done()
	return context.Cause(p.ctx)
}
