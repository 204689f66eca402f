package lock

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/version"
)

// Hash is a base64 digest with a prefix for its scheme: "b1:" is the SHA-256 of an executable, "p1:" of a package, "m1:" of a
// canonical manifest, "g1:" of canonical permissions. Hashes with unknown schemes are kept but never match.
type Hash string

// Schemes that this version computes.
const (
	SchemeBinary   = "b1"
	SchemePackage  = "p1"
	SchemeManifest = "m1"
	SchemeGrants   = "g1"
	SchemeFiles    = "f1"
)

// NoFiles is the hash for a block that lists no files.
const NoFiles Hash = SchemeFiles + ":"

// Scheme returns the part before the first colon, or "".
func (h Hash) Scheme() string {
	scheme, _, ok := strings.Cut(string(h), ":")
	if !ok {
		return ""
	}
	return scheme
}

// Hex returns the digest in hexadecimal, or "" for unknown schemes and invalid base64.
func (h Hash) Hex() string {
	scheme, value, _ := strings.Cut(string(h), ":")
	if scheme != SchemeBinary && scheme != SchemePackage {
		return ""
	}
	sum, err := base64.StdEncoding.DecodeString(value)
	if err != nil || len(sum) != sha256.Size {
		return ""
	}
	return hex.EncodeToString(sum)
}

// Binary returns the hash of an executable, given its SHA-256 in hexadecimal.
func Binary(sha256Hex string) (Hash, error) {
	sum, err := hex.DecodeString(sha256Hex)
	if err != nil || len(sum) != sha256.Size {
		return "", fmt.Errorf("%q is not a hexadecimal SHA-256", sha256Hex)
	}
	return Hash(SchemeBinary + ":" + base64.StdEncoding.EncodeToString(sum)), nil
}

// HashFile computes the hash of an executable.
func HashFile(path string) (Hash, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe without a writer
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(fmt.Errorf("hash %s: it is not a regular file", path), err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("hash %s: %w", path, err)
	}
	return Hash(SchemeBinary + ":" + base64.StdEncoding.EncodeToString(sum.Sum(nil))), nil
}

// Platform returns the operating system and architecture of this program, such as "linux_amd64".
func Platform() string { return runtime.GOOS + "_" + runtime.GOARCH }

// Hashes are the known hashes for a platform. One match is sufficient.
type Hashes struct {
	Binary  []Hash // of the executable; checked at each start
	Package []Hash // of the archive that contained it; checked on installation
}

// Entry is the lock of one program.
type Entry struct {
	Address     string // normal form of its source; see source.Source.Address
	Version     version.Version
	Constraints version.Constraints // for readers of the file; not used for decisions
	Contract    int                 // contract version; 0: not recorded
	Manifest    Hash                // of the canonical manifest; empty if not recorded
	Grants      Hash                // of the permissions that the user accepted; empty if not recorded
	Files       Hash                // of the files that the program loads according to its block; empty if there are none
	Signer      string              // the signer of the package; empty if unsigned
	Platforms   map[string]Hashes   // by "OS_ARCH"
	Range       diag.Range          // of the block's header; zero if the entry was not read from a file
}

// Process is what the user has accepted of a process that a plugin's block declares.
type Process struct {
	Name     string     // the plugin's label and the process's name: "mcp.server.github"
	Content  Hash       // of its arguments, folder, sandbox and limits, and of the names of its variables
	Programs []Hash     // of the program, which differs from one machine to the next; one match is sufficient
	Range    diag.Range // zero if the entry was not read from a file
}

// ErrNoScheme is returned if this version supports the scheme of none of the known hashes. Either the entry must be renewed or
// gantry updated.
var ErrNoScheme = errors.New("no checksum in a supported format")

// ErrDiffers is returned if content matches none of the known hashes. Unless the user changed it, it may have been tampered with.
var ErrDiffers = errors.New("the content differs from the lock")

// Match compares content with known hashes. It returns nil if any is equal, [ErrNoScheme] if none is comparable, and [ErrDiffers]
// otherwise.
func Match(known []Hash, computed ...Hash) error {
	comparable := false
	for _, c := range computed {
		if slices.Contains(known, c) {
			return nil
		}
		comparable = comparable || slices.ContainsFunc(known, func(k Hash) bool { return k.Scheme() == c.Scheme() })
	}
	if !comparable {
		return ErrNoScheme
	}
	return ErrDiffers
}

// Learn adds hashes for a platform: those that the host computed, and those from a document with a verified signature. If the
// platform is known already, the computed hashes must match first, so that a lock is only extended by proof of the same content.
// Callers must not pass hashes from unsigned documents.
func (e *Entry) Learn(platform string, computed, signed Hashes) error {
	known := e.Platforms[platform]
	for _, pair := range []struct{ known, computed []Hash }{
		{known.Binary, computed.Binary}, {known.Package, computed.Package},
	} {
		if len(pair.known) == 0 || len(pair.computed) == 0 {
			continue
		}
		if err := Match(pair.known, pair.computed...); err != nil {
			return fmt.Errorf("plugin %q on %s: %w", e.Address, platform, err)
		}
	}
	if e.Platforms == nil {
		e.Platforms = make(map[string]Hashes)
	}
	e.Platforms[platform] = Hashes{
		Binary:  union(known.Binary, computed.Binary, signed.Binary),
		Package: union(known.Package, computed.Package, signed.Package),
	}
	return nil
}

// union returns the sorted elements of all lists without duplicates.
func union(lists ...[]Hash) []Hash {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// clone returns a deep copy.
func (e Entry) clone() Entry {
	platforms := make(map[string]Hashes, len(e.Platforms))
	for name, h := range e.Platforms {
		platforms[name] = Hashes{Binary: union(h.Binary), Package: union(h.Package)}
	}
	e.Platforms = platforms
	e.Constraints = slices.Clone(e.Constraints)
	return e
}
