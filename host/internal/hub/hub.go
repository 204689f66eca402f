// Package hub gives front ends access to threads, wherever they are: running in this process, running in another process of the user,
// or only stored.
//
// It owns which threads there are and how each is reached, the hosts of the workspaces in which they run, and when an idle thread is
// unloaded. It does not know how front ends present a thread, which protocol they speak, or how a turn works.
//
// Start with [New], [Hub.Start] and [Thread.Follow].
package hub

import (
	"context"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
)

// Defaults of [Config].
const (
	DefaultIdleTimeout = 30 * time.Minute // compatible with codex
	DefaultMaxIdle     = 256
)

// Config configures a hub. Load, Open and Store are required.
type Config struct {
	// Home is gantry's home folder, absolute.
	Home string
	// Store is the store of threads, which all hosts share. The hub sets OnDegraded.
	Store store.Config
	// Load reads the configuration of a workspace. It never changes what the user trusts.
	Load func(ctx context.Context, w Workspace) (*config.Config, error)
	// Open opens the host of a workspace with the configuration that Load returned. The host must use what is shared.
	Open func(ctx context.Context, w Workspace, cfg *config.Config, shared host.Shared) (*host.Host, error)
	// IdleTimeout is how long a thread that runs no turn and has no followers stays loaded; 0: [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// MaxIdle is the number of loaded threads beyond which idle ones without followers are unloaded before IdleTimeout, those that have
	// been idle longest first; 0: [DefaultMaxIdle].
	MaxIdle int
	Logger  hclog.Logger
}

// Workspace is what threads share a host for. Threads whose workspaces have the same effective configuration share a host.
type Workspace struct {
	// Dir is the folder whose configuration applies, absolute. It is also the working folder of a new thread.
	Dir string
	// Sets are settings that override the configuration, as "NAME=VALUE", like the flag -c.
	Sets []string
	// Profile is the name of a profile; "": the configured one.
	Profile string
	// WritableRoots are folders that commands may write in addition to the configured ones, absolute.
	WritableRoots []string
	// Ephemeral threads are not stored: they end with the hub, and are not listed.
	Ephemeral bool
}

// StartParams describe a new thread. Empty fields have the values of the workspace's configuration.
type StartParams struct {
	Workspace
	Model  string // label of a model block, or PROVIDER/NAME
	Source string // the kind of front end: "exec", "tui", "vscode", ...
	Name   string
	// Effort is the reasoning effort.
	Effort string
	// Approval and Sandbox apply as long as the thread is loaded.
	Approval, Sandbox string
	// BaseInstructions replace the base instructions of the model; DeveloperInstructions are added to the context.
	BaseInstructions, DeveloperInstructions string
}

// ResumeParams describe how a stored thread continues. They have no effect on a thread that is already running, here or elsewhere.
type ResumeParams struct {
	// Workspace: if Dir is empty, it is the folder of the thread's last turn.
	Workspace
	// Settings change the thread's settings; empty fields change nothing.
	Settings event.Settings
}

// Fork selects the part of a thread that a fork copies.
type Fork struct {
	// Through is the last turn that is copied, Before the first one that is not. At most one is set; neither: the whole thread. A turn
	// is identified by its ID, a prefix of it, or its number among the turns that were not reverted.
	Through, Before string
	Name            string // of the fork; "": that of the thread
}

// Reverted describes reverted turns.
type Reverted struct {
	Before event.TurnID // the first reverted turn
	Turns  int
	Usage  event.Tokens // of the thread after the revert
}

// Hub is every thread that can be reached. Its methods may be called concurrently.
type Hub struct {
	cfg   Config
	log   hclog.Logger
	store *store.Store

	mu struct {
		sync.Mutex
		closing bool
	}
}

// New opens the store. Hosts are opened when a thread needs them.
func New(ctx context.Context, cfg Config) (*Hub, error) { panic("not implemented") }

// Close ends all threads of this process, interrupting their turns, and closes their hosts and the store. Threads of other processes
// continue. Close is idempotent.
func (h *Hub) Close() error { panic("not implemented") }

// Configuration loads the configuration of a workspace.
func (h *Hub) Configuration(ctx context.Context, w Workspace) (*config.Config, error) {
	return h.cfg.Load(ctx, w)
}

// Start starts a new thread in this process.
func (h *Hub) Start(ctx context.Context, p StartParams) (*Thread, error) { panic("not implemented") }

// Resume returns a thread that runs, here or in another process. If no process runs the thread, it is loaded into this one: calls and
// turns that were left open are closed first.
func (h *Hub) Resume(ctx context.Context, id event.ThreadID, p ResumeParams) (*Thread, error) {
	panic("not implemented")
}

// Find returns a thread that runs, here or in another process. It loads nothing.
func (h *Hub) Find(ctx context.Context, id event.ThreadID) (*Thread, bool) { panic("not implemented") }

// Loaded returns the threads that run here, sorted.
func (h *Hub) Loaded() []event.ThreadID { panic("not implemented") }

// Unload ends a thread that runs in this process, and interrupts its turn. It does nothing if the thread does not run here.
func (h *Hub) Unload(ctx context.Context, id event.ThreadID) error { panic("not implemented") }

// Status returns the state of a thread. Threads that are unknown are [NotLoaded].
func (h *Hub) Status(ctx context.Context, id event.ThreadID) Status { panic("not implemented") }

// Watch reports changes of threads from now on.
func (h *Hub) Watch() *Changes { panic("not implemented") }
