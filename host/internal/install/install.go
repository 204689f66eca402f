// Package install manages the programs of plugins and providers: it finds them, compares them with their locks, asks for and
// records the user's consent, and adds and removes their blocks.
//
// It owns the decision which program may start, the questions before that, and the lock files and blocks that it changes. It does
// not know how a front end asks and prints, or how a plugin is configured.
//
// Start with [Installation.Open], which a front end calls with its own [Front].
package install

import (
	"context"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/edit"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/hashicorp/go-hclog"
)

// Installation is the gantry installation of a user.
type Installation struct {
	Home     string // gantry's home folder
	Bin      string // folder of gantry's own programs
	Dir      string // relative sources are resolved against it, and a new project is created in it
	Version  string
	Environ  []string
	Builtins map[string]string // file name → SHA-256 of the programs that belong to this build
	Logger   hclog.Logger
	Front    Front
	Load     func(context.Context) (*config.Config, error) // reloads the configuration
	// Needs reports whether what is to be done needs a declared process; the user is asked about no others. nil: it may need all.
	Needs func(config.Process) bool
}

// env returns the last value of a variable.
func (in Installation) env(name string) (value string) {
	for _, e := range in.Environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// Front is the front end that talks to the user.
type Front interface {
	// Confirm asks the user a question. It returns false if there is no user to ask. The question may contain control characters.
	Confirm(ctx context.Context, question string) bool
	// Show shows a step. Later questions may refer to it.
	Show(step Step)
}

// Step is an action for the user to see: one that was done, or a change that is about to be recorded.
type Step struct {
	Kind    StepKind
	Label   string     // of the plugin's block
	Block   edit.Block // the added or removed block
	Version string     // of the plugin
	Address string     // of the program in the lock file
	File    string     // the written file
	Changes []string   // one line each
	Why     string
	Where   string // position of a block
}

// StepKind is the kind of a [Step]. The comments list the fields that are set.
type StepKind int

const (
	StepUnknown         StepKind = iota
	StepUnchanged                // the lock is up to date: label, version
	StepChanges                  // the lock is about to record this: label, version (or the name of a process), changes
	StepRecorded                 // the lock was written: label, file
	StepUnpinned                 // the lock covers only part of what the program loads: label, why
	StepPruned                   // an entry without a block was removed: address, file
	StepAdded                    // a block was added: block, file
	StepRemoved                  // a block was removed: block, file
	StepUnlocked                 // the entry of a removed block was removed: address, file
	StepStillConfigured          // another file also has a block with this label: block, where
)

// Added is a plugin that was added.
type Added struct {
	Block    edit.Block
	Manifest *contract.Manifest
	File     string // the file that contains the block
}

// ArgumentError is an error in what the user typed.
type ArgumentError struct{ Err error }

// Error implements error.
func (e *ArgumentError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *ArgumentError) Unwrap() error { return e.Err }
