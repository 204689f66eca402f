package plugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin/environment"
	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Spec specifies the plugin of a slot and how it is started.
type Spec struct {
	// Label is the label of the user's block, the name of the slot, and part of the paths of folders.
	Label string
	// Kind is the kind that the plugin must have; [contract.KindUnknown] permits any.
	Kind contract.Kind
	// Source is what the user wrote, for messages. Path is the absolute path of the executable.
	Source, Path string
	Args         []string
	// SHA256 is the digest in the lock file, in hex. If empty, the binary is not locked.
	SHA256 string
	// ManifestDigest is the digest of the locked manifest. If empty, the manifest is not locked.
	ManifestDigest string
	// Env is added to the inherited variables. Variables that change which code programs load are rejected unless UnsafeEnv
	// is set.
	Env       map[string]string
	UnsafeEnv bool
	Limits    Limits
	// Transport is "peercred" (the default) or "mtls".
	Transport string
	// StartTimeout bounds the time until the handshake, and the time for Describe and Configure. 0: 10 s.
	StartTimeout time.Duration
	// Confine returns the sandbox of a process with these own folders, the first of which is that of its sockets. Its own
	// folders are visible and writable in the sandbox. nil: no sandbox.
	Confine func(own []string) (*Sandbox, error)
	// Where is the position of the user's block, for example "gantry.hcl:14".
	Where string
	// Configure renders the user's block for this manifest as JSON. If there is an error among the diagnostics, the start
	// fails. nil: {}.
	Configure func(context.Context, *contract.Manifest) (configJSON []byte, diags []contract.Diagnostic)
	// Exclusive reports, once the plugin is configured, that it starts processes that its block declares, such as servers. They are not to
	// run twice, so a process that it replaces ends with its calls, and can't take over again. nil: it starts none.
	Exclusive func() bool
	// Place adds the positions in the user's files to the plugin's diagnostics about its block. nil: they are not changed.
	Place func([]contract.Diagnostic) []contract.Diagnostic
}

// Sandbox confines a plugin's process.
type Sandbox = proc.Sandbox

// Limits are the limits of one plugin. 0: none.
type Limits struct {
	// MemoryBytes limits the resident memory of the process tree. GOMEMLIMIT is set accordingly.
	MemoryBytes int64
	// Pids limits the number of processes in the tree.
	Pids int
	// StorageBytes limits the size of the plugin's own folders. They are measured repeatedly; exceeding it ends the process.
	StorageBytes int64
}

// Identity identifies one process of a slot.
type Identity struct {
	Label string
	// Generation counts the processes of the slot, from 1.
	Generation uint64
}

// String returns "label#generation".
func (id Identity) String() string { return fmt.Sprintf("%s#%d", id.Label, id.Generation) }

// isLabel reports whether a text has 1 to 64 letters, digits, underscores, dots and dashes, and begins with a letter or a digit.
func isLabel(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '_' || c == '.' || c == '-'):
		default:
			return false
		}
	}
	return s != "" && len(s) <= 64
}

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

// validate returns an error if the specification can't work.
func (s Spec) validate() error {
	switch {
	case !isLabel(s.Label):
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
