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

// Hash is a digest with its scheme in front: "b1:" is the SHA-256 of an executable, "p1:" that of a package, "m1:" that
// of a canonical manifest, "g1:" that of canonical permissions, all in base64. Unknown schemes are kept and never match.
type Hash string

// The schemes that this version computes.
const (
	SchemeBinary   = "b1"
	SchemePackage  = "p1"
	SchemeManifest = "m1"
	SchemeGrants   = "g1"
	SchemeFiles    = "f1"
)

// NoFiles is the hash of a program whose block lists no files.
const NoFiles Hash = SchemeFiles + ":"

// Scheme is the part before the first colon, "" when there is none.
func (h Hash) Scheme() string {
	scheme, _, ok := strings.Cut(string(h), ":")
	if !ok {
		return ""
	}
	return scheme
}

// Hex returns the digest in hex, "" for unknown schemes or broken base64.
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

// Binary makes the hash of an executable from its SHA-256 in hex.
func Binary(sha256Hex string) (Hash, error) {
	sum, err := hex.DecodeString(sha256Hex)
	if err != nil || len(sum) != sha256.Size {
		return "", fmt.Errorf("%q is not a hexadecimal SHA-256", sha256Hex)
	}
	return Hash(SchemeBinary + ":" + base64.StdEncoding.EncodeToString(sum)), nil
}

// HashFile computes the hash of an executable.
func HashFile(path string) (Hash, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe that nobody writes to
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

// Platform names the operating system and architecture that this program runs on: "linux_amd64".
func Platform() string { return runtime.GOOS + "_" + runtime.GOARCH }

// Hashes is what is known for one platform. Matching any one is enough.
type Hashes struct {
	Binary  []Hash // of the executable; checked at each start
	Package []Hash // of the archive that it came in; checked when it is installed
}

// Entry is what is locked about one plugin program.
type Entry struct {
	Address     string // normal form of its source, see source.Source.Address
	Version     version.Version
	Constraints version.Constraints // for people; no decision depends on them
	Contract    int                 // contract version; 0: not recorded
	Manifest    Hash                // of the canonical manifest; empty: not recorded
	Grants      Hash                // of the permissions that the user accepted; empty: not recorded
	Files       Hash                // of the files that the program loads, as its block lists them; empty: it lists none
	Signer      string              // who signed the package; empty: nobody
	Platforms   map[string]Hashes   // by "OS_ARCH"
	Range       diag.Range          // of the block's header; zero for what was not read from a file
}

// ErrNoScheme is returned when every known hash has a scheme that this version does not compute. The entry has to be
// renewed, or gantry to be updated.
var ErrNoScheme = errors.New("no checksum in a supported format")

// ErrDiffers is returned when content matches none of the known hashes. Unless the user changed it, it was tampered with.
var ErrDiffers = errors.New("the content differs from the lock")

// Match reports whether content with these hashes is what known describes: nil when any is equal, [ErrNoScheme] when
// none could be compared, [ErrDiffers] otherwise.
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

// Learn records hashes for a platform: those that the host computed itself, and those of a document whose signature was
// checked. Where the platform is known already, the computed ones must match first: a lock is widened by what proved to
// be the same, never by something else. Unsigned lists must not be passed at all.
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

// union sorts and removes repetition.
func union(lists ...[]Hash) []Hash {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// clone copies an entry so that a change of one does not reach the other.
func (e Entry) clone() Entry {
	platforms := make(map[string]Hashes, len(e.Platforms))
	for name, h := range e.Platforms {
		platforms[name] = Hashes{Binary: union(h.Binary), Package: union(h.Package)}
	}
	e.Platforms = platforms
	e.Constraints = slices.Clone(e.Constraints)
	return e
}
