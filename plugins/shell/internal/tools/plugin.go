// Package tools declares the tools of the shell plugin: exec_command, write_stdin, apply_patch and view_image, and for models that
// these don't suit, edit_file, read_file, list_files and search_files.
//
// It owns: arguments, assessments, the results that the model reads, and the wiring of the other packages. It must not know: policy,
// approval, truncation (the host's), or how patches, sessions and images work.
//
// Start with [New].
package tools

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/shell/internal/helper"
	"github.com/gantry-agent/gantry/plugins/shell/internal/session"
	"github.com/gantry-agent/gantry/plugins/shell/internal/shell"
	"github.com/gantry-agent/gantry/plugins/shell/internal/snapshot"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// Config is the plugin's block.
type Config struct {
	Shell    string        `json:"shell" doc:"Path of the shell that runs commands: sh, bash, zsh, pwsh, powershell or cmd. Default: the user's."`
	Login    bool          `json:"login" default:"true" doc:"Whether commands may run in a login shell, which reads the user's profile first."`
	Terminal bool          `json:"terminal" default:"true" doc:"Whether commands may get a terminal."`
	Snapshot bool          `json:"snapshot" default:"true" doc:"Whether what the profile makes of a login shell is kept for the commands that follow, instead of reading it each time. bash and zsh."`
	MaxPoll  time.Duration `json:"max_poll" default:"5m" doc:"The longest that one call may wait for a session that it types nothing into."`
}

// The model traits that tools require.
const (
	imageTrait = "images"  // accepts images
	patchTrait = "patches" // writes patches; the default
	editTrait  = "edits"   // replaces text instead of writing patches
	filesTrait = "files"   // works better with tools for files than with commands
)

// shellPlugin is the state of the plugin.
type shellPlugin struct {
	config *Config
	finder shell.Finder
	shell  shell.Shell // set by configured
	store  *session.Store
	helper helper.Client
	plans  plans
	// writing has a token while files are being changed.
	writing chan struct{}

	snapshots snapshot.Cache

	mu struct {
		sync.Mutex
		unannounced map[string]map[int]string // thread → session that the model does not know → description
	}
}

// New returns the plugin. binary is the path of this program, which is also the helper that the host starts.
func New(version, binary string) tool.Plugin {
	f := &shellPlugin{
		config: &Config{Login: true, Terminal: true, Snapshot: true, MaxPoll: session.MaxPoll},
		store:  session.NewStore(), helper: helper.Client{Binary: binary}, writing: make(chan struct{}, 1),
	}
	f.mu.unannounced = map[string]map[int]string{}
	return tool.Plugin{
		Name: "shell", Version: version,
		Description:  "Runs commands, changes files by patches, and looks at images.",
		Config:       f.config,
		Tools:        f.tools(),
		Capabilities: []string{"spawn"},
		Configured:   f.configured,
		View:         f.view,
		StopSession: func(ctx context.Context, threadID, sessionID string) error {
			id, err := strconv.Atoi(sessionID)
			if err != nil {
				return nil // not a session of this plugin
			}
			return f.store.Stop(ctx, threadID, id)
		},
		EndThread: func(ctx context.Context, threadID string) error {
			f.plans.forget(threadID)
			f.mu.Lock()
			delete(f.mu.unannounced, threadID)
			f.mu.Unlock()
			return f.store.End(ctx, threadID)
		},
		Adopt: f.adopt,
		Drain: func(context.Context) error {
			f.store.StopWaiting()
			return nil
		},
		Close: f.store.Close,
	}
}

func (f *shellPlugin) tools() []tool.Tool {
	return []tool.Tool{
		f.execTool(), f.inputTool(), f.patchTool(), f.imageTool(), f.editTool(), f.readTool(), f.listTool(), f.findTool(),
	}
}

// configured selects the shell, and offers the tools without the arguments that the configuration disables.
func (f *shellPlugin) configured(_ context.Context, env *tool.Env) error {
	f.shell = f.finder.Default()
	if f.config.Shell != "" {
		var ok bool
		if f.shell, ok = f.finder.Configured(f.config.Shell); !ok {
			return configblock.Invalid(fmt.Sprintf("%q is not a supported shell, or does not exist", f.config.Shell), contract.Name("shell"))
		}
	}
	if f.config.MaxPoll <= 0 {
		return configblock.Invalid("max_poll must be positive", contract.Name("max_poll"))
	}
	return env.SetTools(f.tools())
}
