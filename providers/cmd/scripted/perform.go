package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// performance does what an answer consists of, in order.
type performance struct {
	ctx  context.Context
	emit func(llm.Event) error
	take *take
	end  func(how string, code int) error
	step string
}

func (p *performance) perform(actions []script.Action) error {
	for _, a := range actions {
		var err error
		switch a := a.(type) {
		case script.Emit:
			err = p.send(a.Event)
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

func (p *performance) send(e llm.Event) error {
	p.take.add(e)
	return p.emit(e)
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
	case "endless":
		for {
			if err := p.ctx.Err(); err != nil {
				return context.Cause(p.ctx)
			}
			if err := p.emit(h.Event); err != nil { // not on the tape: it would fill the disk
				return err
			}
			if h.Every > 0 {
				if err := p.wait(h.Every); err != nil {
					return err
				}
			}
		}
	}
	if err := p.take.close(p.ctx); err != nil { // nobody will be left to do it
		return err
	}
	if h.How == "panic" {
		panic("the script asked for a panic in step " + p.step)
	}
	if err := p.end(h.How, h.Code); err != nil {
		return fmt.Errorf("script: %s this process: %w", h.How, err)
	}
	<-p.ctx.Done() // stopped and continued: the answer hangs
	return context.Cause(p.ctx)
}
