package plugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin/environment"
	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Spec says which plugin a slot holds and how it is started.
type Spec struct {
	// Label is the label of the user's block and the name of the slot. It also names folders.
	Label string
	// Kind that the plugin must be of. [contract.KindUnknown]: any.
	Kind contract.Kind
	// Source is what the user wrote; for messages only. Path is the executable, absolute.
	Source, Path string
	Args         []string
	// SHA256 is the digest that the lock file demands, in hex. Empty: not locked.
	SHA256 string
	// ManifestDigest is the digest of the manifest that the user consented to. Empty: not locked.
	ManifestDigest string
	// Env is added to the allow-listed environment. Names that change how programs are loaded are refused unless
	// UnsafeEnv is set.
	Env       map[string]string
	UnsafeEnv bool
	Limits    Limits
	// Transport is "peercred", "mtls" or empty: peercred.
	Transport string
	// StartTimeout bounds the time until the handshake, and again the time for describing and configuring. 0: 10 s.
	StartTimeout time.Duration
	// IdleStop ends a plugin that was not called for that long; the next call starts it again. 0: never.
	IdleStop time.Duration
	// Confine says what confines the plugin's process, whose own folders these are: that of its sockets first, which stay
	// visible and writable whatever is hidden. nil: nothing confines it.
	Confine func(own []string) (*Sandbox, error)
	// Where is the place of the user's block, for example "gantry.hcl:14".
	Where string
	// Configure renders the user's block for this manifest as JSON. An error among the diagnostics keeps the plugin from
	// being used. nil: {}.
	Configure func(context.Context, *contract.Manifest) (configJSON []byte, diags []contract.Diagnostic)
	// Place says in the details of what the plugin found wrong with its block where in the user's files that is. nil: the
	// paths are kept.
	Place func([]contract.Diagnostic) []contract.Diagnostic
}

// Sandbox confines a plugin's process.
type Sandbox = proc.Sandbox

// Limits of one plugin's processes. 0: none.
type Limits struct {
	// MemoryBytes is the resident memory of the whole tree. Go plugins are told to collect garbage before they reach it.
	MemoryBytes int64
	// Pids is how many processes the tree may have.
	Pids int
	// StorageBytes is what its own folders may hold. They are measured while it is used; one that holds more ends the process.
	StorageBytes int64
}

// Identity names one process of a slot.
type Identity struct {
	Label string
	// Generation grows with every process of the slot, from 1.
	Generation uint64
}

// String returns "label#generation".
func (id Identity) String() string { return fmt.Sprintf("%s#%d", id.Label, id.Generation) }

var labelPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

const defaultStartTimeout = 10 * time.Second

func (s Spec) withDefaults() Spec {
	if s.Transport == "" {
		s.Transport = wire.TransportPeer
	}
	if s.StartTimeout <= 0 {
		s.StartTimeout = defaultStartTimeout
	}
	return s
}

// validate reports the first thing that could never work.
func (s Spec) validate() error {
	switch {
	case !labelPattern.MatchString(s.Label):
		return fmt.Errorf("label %q: use letters, digits, dots, dashes and underscores, at most 64", s.Label)
	case s.Path == "":
		return errors.New("no path to the executable")
	case !filepath.IsAbs(s.Path):
		return fmt.Errorf("path %q is not absolute", s.Path)
	case s.Transport != wire.TransportPeer && s.Transport != wire.TransportTLS:
		return fmt.Errorf("unknown transport %q: use %q or %q", s.Transport, wire.TransportPeer, wire.TransportTLS)
	case s.Limits.MemoryBytes < 0 || s.Limits.Pids < 0 || s.Limits.StorageBytes < 0:
		return errors.New("a limit is negative")
	}
	return environment.Check(s.Env, s.UnsafeEnv)
}

// TmpDir is the name of a confined plugin's folder for temporary files, inside the folder of its sockets.
const TmpDir = "tmp"

// environment returns what determines the environment of a process whose sockets are in dir.
func (s Spec) environment(dir string) environment.Config {
	c := environment.Config{Block: s.Env, MemoryBytes: s.Limits.MemoryBytes, SocketDir: dir, Lifeline: lifelineFD}
	if s.Confine != nil {
		c.TmpDir = filepath.Join(dir, TmpDir)
	}
	return c
}
