package plugin

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// manifestCache keeps manifests by the program that described itself so, so that listing tools and checking configuration
// start no process. An empty dir keeps nothing.
//
// Entries hold for one version of the host, so what is in the cache has passed this host's own checks.
type manifestCache struct{ dir, hostVersion string }

// program identifies what runs: the executable by its digest and, where that is an interpreter, what it is told to run. So
// the arguments count, the content of the first file that they name (a script, an archive), and the variables that put
// other code into a program. Only absolute paths count as names of files: a plugin's working folder is no place for code.
// Other variables are configuration, which a manifest must not depend on.
func (c Config) program(sum string, spec Spec) string {
	var more []string
	script := false
	for _, arg := range spec.Args {
		more = append(more, "argument", arg)
		if script || !filepath.IsAbs(arg) {
			continue
		}
		if content, err := binary.Digest(arg, c.records()); err == nil {
			more = append(more, "content", content)
			script = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		if loadsCode(name) {
			more = append(more, "variable", name+"="+spec.Env[name])
		}
	}
	if len(more) == 0 {
		return sum
	}
	h := sha256.New()
	for _, s := range more {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return fmt.Sprintf("%s-%x", sum, h.Sum(nil)[:8])
}

func (c manifestCache) file(program string) string {
	host := sha256.Sum256([]byte(c.hostVersion))
	return filepath.Join(c.dir, fmt.Sprintf("%s-v%d-%s-%s-%x.json", program, contract.Version, runtime.GOOS, runtime.GOARCH, host[:4]))
}

// holds tells whether the entry is exactly this manifest, which is the usual case and needs no parsing.
func (c manifestCache) holds(program string, canonical []byte) bool {
	if c.dir == "" {
		return false
	}
	b, err := os.ReadFile(c.file(program))
	return err == nil && bytes.Equal(b, canonical)
}

// get returns nil when there is none. A damaged entry counts as none and is replaced by the next start.
func (c manifestCache) get(program string) *contract.Manifest {
	if c.dir == "" {
		return nil
	}
	b, err := os.ReadFile(c.file(program))
	if err != nil {
		return nil
	}
	m, err := contract.ParseManifest(b)
	if err != nil {
		return nil
	}
	return m
}

func (c manifestCache) put(program string, m *contract.Manifest) error {
	if c.dir == "" {
		return nil
	}
	return binary.WriteFile(c.file(program), m.Canonical())
}

// forget removes an entry: the program doesn't describe itself so any more.
func (c manifestCache) forget(program string) error {
	if c.dir == "" {
		return nil
	}
	if err := os.Remove(c.file(program)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
