// Package autorun finds the files in writable folders that other programs execute without being asked to: git's hooks and the programs that
// its settings name, startup files of shells, settings of agents, folders of the PATH.
//
// It owns: which names these are, an index of where they are in each writable folder. It must not know: what a sandbox is, what becomes
// of the files that it finds.
//
// Start with [Index.Find].
package autorun

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// Kind says why a file matters.
type Kind int

// File is a file or folder that other programs execute, or that tells them what to execute.
type File struct {
	Root   string // the writable root that it is in
	Path   string // relative to Root
	Kind   Kind
	ID     fspath.Identity
	Origin Origin
	Older  bool // it existed before the oldest command that is running in Root
}

func (p File) AbsPath() string { return filepath.Join(p.Root, p.Path) }

// maxDigest is the largest file of which a digest is made.
const maxDigest = 1 << 20

// Digest returns a digest of the file's content or of the link's target, or "" if there is none.
func (p File) Digest() string {
	in, err := os.OpenRoot(p.Root)
	if err != nil {
		return ""
	}
	defer in.Close()
	info, err := in.Lstat(p.Path)
	if err != nil {
		return ""
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := in.Readlink(p.Path)
		if err != nil {
			return ""
		}
		return "-> " + to
	}
	if !info.Mode().IsRegular() || info.Size() > maxDigest {
		return ""
	}
	f, err := in.OpenFile(p.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxDigest+1)); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Why says, for messages, why a file of this kind that a command has made may not stay.
func (k Kind) Why() string {
	switch k {
	case KindAgentSettings:
		return "it would say what agents may do"
	case KindHook:
		return "git would execute it"
	case KindGitSettings:
		return "it may name programs for git to execute"
	case KindVCSSettings:
		return "it may name programs for a version control system to execute"
	case KindUnlistable:
		return "its content can't be examined"
	case KindStartup:
		return "your shells or your desktop would execute it"
	case KindProtectedLink:
		return "no sandbox can keep a link read-only"
	case KindDenied:
		return "`sandbox { deny_read, deny_write }` names it"
	case KindSetID:
		return "it would give its owner's rights to whoever executes it"
	case KindReferenced:
		return "others execute it: git's settings or your PATH lead there"
	case KindCause:
		return "it would make git, or another program, execute existing files"
	case KindRootLink:
		return "it would move a folder of `sandbox { writable_roots }` to its target"
	case KindRepository, KindUnknown:
	}
	return "it is executed later"
}

// Protected are the names that stay read-only directly below a writable root, whether they exist or not: they are executed later,
// or say what agents may do. Matches codex 0.169, with gantry's own folder added.
var Protected = []string{".git", ".agents", ".codex", ".gantry", ".aws"}
