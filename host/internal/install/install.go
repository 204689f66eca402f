// Package install manages the programs of plugins and providers: it finds them, compares them with their locks, asks for
// the user's consent, records it, and adds and removes their blocks.
//
// It owns: which program may start and what the user is asked before it does; the lock files and the blocks that it
// changes. It must not know: how a front end asks and prints, and the configuration of a plugin that runs.
//
// Start with [Installation.Open], which every front end calls with its own [Front].
package install

import (
	"context"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/edit"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/hashicorp/go-hclog"
)

// Installation is one user's gantry, with its plugins.
type Installation struct {
	Home     string // the folder of gantry's own files
	Bin      string // the folder of gantry's own programs
	Dir      string // relative sources start here, and so does a new project
	Version  string
	Environ  []string
	Builtins map[string]string // file name → SHA-256 of what was built with this program
	Logger   hclog.Logger
	Front    Front
	Load     func(context.Context) (*config.Config, error) // reads the configuration anew
}

// env is the last value of a variable.
func (in Installation) env(name string) (value string) {
	for _, e := range in.Environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// Front is the front end, which talks to the user.
type Front interface {
	// Confirm asks the user. It returns false if there is no user to ask. The question may contain control characters.
	Confirm(ctx context.Context, question string) bool
	// Show shows a step. Questions that follow may refer to it.
	Show(step Step)
}

// Step is one thing that was done, or is about to be recorded, for the user to see.
type Step struct {
	Kind    StepKind
	Label   string     // of the plugin's block
	Block   edit.Block // that was added or removed
	Version string     // of the plugin
	Address string     // of the program, in the lock file
	File    string     // that was written
	Changes []string   // one line each
	Why     string
	Where   string // place of a block
}

// StepKind is a kind of [Step]; the comments name the fields that are set.
type StepKind int

const (
	StepUnknown         StepKind = iota
	StepUnchanged                // the lock is up to date: label, version
	StepChanges                  // what the lock is about to record: label, version, changes
	StepRecorded                 // the lock was written: label, file
	StepUnpinned                 // the lock covers only a part of what the program loads: label, why
	StepPruned                   // an entry without a block was dropped: address, file
	StepAdded                    // a block was added: block, file
	StepRemoved                  // a block was removed: block, file
	StepUnlocked                 // the entry of a removed block was dropped: address, file
	StepStillConfigured          // another file has a block with the label, too: block, where
)

// Added is a plugin that was added.
type Added struct {
	Block    edit.Block
	Manifest *contract.Manifest
	File     string // that has the block
}

// ArgumentError says that what a person has named or typed can't be used.
type ArgumentError struct{ Err error }

// Error implements error.
func (e *ArgumentError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with it.
func (e *ArgumentError) Unwrap() error { return e.Err }
