// Package tools declares the tools of the Python plugin: python, which executes a cell, and python_reset.
//
// It owns: arguments, assessments, the results that the model reads, and which thread has which kernel. It must not know: policy,
// approval, truncation (the host's), or how a kernel works.
//
// Start with [New].
package tools

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/python/internal/interpreter"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// Config is the plugin's block.
type Config struct {
	Interpreter string        `json:"interpreter" doc:"Path of the Python that runs cells. Default: the folder's .venv or venv, $VIRTUAL_ENV, the environment of the command setup, python3, python."`
	Packages    []string      `json:"packages" doc:"Packages that the command setup installs, such as \"numpy\" or \"pandas>=2\"."`
	Timeout     time.Duration `json:"timeout" default:"2m" doc:"How long a cell may run that has no timeout of its own."`
	MaxTimeout  time.Duration `json:"max_timeout" default:"30m" doc:"The longest timeout of a cell."`
	Memory      string        `json:"memory" default:"4GiB" doc:"Memory that the kernel, and each process that it starts, may allocate, such as \"512MiB\". Linux only; \"0\": no limit."`
	Idle        time.Duration `json:"idle" default:"30m" doc:"How long an unused kernel is kept."`
}

// pythonPlugin is the state of the plugin.
type pythonPlugin struct {
	config *Config
	memory int64 // set by configured
	finder interpreter.Finder
	data   string // the plugin's data folder, set by configured; empty: it has none

	mu struct {
		sync.Mutex
		threads map[string]*thread
	}
}

// New returns the plugin.
func New(version string) tool.Plugin {
	p := &pythonPlugin{config: &Config{Timeout: 2 * time.Minute, MaxTimeout: 30 * time.Minute, Memory: "4GiB", Idle: 30 * time.Minute}}
	p.mu.threads = map[string]*thread{}
	p.finder.Own = p.own
	return tool.Plugin{
		Name: "python", Version: version,
		Description:  "Executes Python code in a kernel that keeps its variables from call to call.",
		Config:       p.config,
		Tools:        []tool.Tool{p.cellTool(), p.resetTool()},
		Commands:     p.commands(),
		Capabilities: []string{"spawn", "call-tools", "state"},
		Configured:   p.configured,
		StopSession: func(ctx context.Context, threadID, sessionID string) error {
			return p.thread(threadID).stop(ctx, sessionID, "it was stopped")
		},
		EndThread: func(ctx context.Context, threadID string) error {
			p.mu.Lock()
			t := p.mu.threads[threadID]
			delete(p.mu.threads, threadID)
			p.mu.Unlock()
			if t == nil {
				return nil
			}
			return t.stop(ctx, "", "")
		},
		Adopt: p.adopt,
		Close: p.close,
	}
}

func (p *pythonPlugin) configured(_ context.Context, env *tool.Env) error {
	memory, err := parseSize(p.config.Memory)
	switch {
	case err != nil:
		return configblock.Invalid(err.Error(), contract.Name("memory"))
	case p.config.Timeout <= 0:
		return configblock.Invalid("timeout must be positive", contract.Name("timeout"))
	case p.config.MaxTimeout < p.config.Timeout:
		return configblock.Invalid(fmt.Sprintf("max_timeout must be at least the timeout, %v", p.config.Timeout), contract.Name("max_timeout"))
	case p.config.Idle <= 0:
		return configblock.Invalid("idle must be positive", contract.Name("idle"))
	}
	for _, name := range p.config.Packages {
		if name == "" || strings.HasPrefix(name, "-") {
			return configblock.Invalid(fmt.Sprintf("%q is not a package; write its name, such as \"numpy\" or \"pandas>=2\"", name), contract.Name("packages"))
		}
	}
	p.memory, p.data = memory, env.DataDir
	return nil
}

// thread returns the state of a thread.
func (p *pythonPlugin) thread(id string) *thread {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.mu.threads[id]
	if t == nil {
		t = &thread{}
		t.mu.next = newSessionID()
		p.mu.threads[id] = t
	}
	return t
}

// all returns the threads by ID.
func (p *pythonPlugin) all() map[string]*thread {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]*thread, len(p.mu.threads))
	for id, t := range p.mu.threads {
		out[id] = t
	}
	return out
}

// close leaves the kernels to the next process of the plugin; the host ends those that are no longer needed.
func (p *pythonPlugin) close(context.Context) error {
	for _, t := range p.all() {
		if r := t.running(); r != nil {
			r.idle.Stop()
			r.Close()
		}
	}
	return nil
}
