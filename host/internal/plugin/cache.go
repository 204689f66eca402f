package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// manifestCache keeps manifests by the digest of the binary that described itself so, so that listing tools and checking
// configuration start no process. An empty dir keeps nothing.
type manifestCache struct{ dir string }

func (c manifestCache) file(sha256 string) string {
	return filepath.Join(c.dir, fmt.Sprintf("%s-v%d-%s-%s.json", sha256, contract.Version, runtime.GOOS, runtime.GOARCH))
}

// get returns nil when there is none. A damaged entry counts as none and is replaced by the next start.
func (c manifestCache) get(sha256 string) *contract.Manifest {
	if c.dir == "" {
		return nil
	}
	b, err := os.ReadFile(c.file(sha256))
	if err != nil {
		return nil
	}
	m, err := contract.ParseManifest(b)
	if err != nil || m == nil || m.Validate() != nil {
		return nil
	}
	return m
}

func (c manifestCache) put(sha256 string, m *contract.Manifest) error {
	if c.dir == "" {
		return nil
	}
	return binary.WriteFile(c.file(sha256), m.Canonical())
}

// forget removes an entry: the binary doesn't describe itself so any more.
func (c manifestCache) forget(sha256 string) error {
	if c.dir == "" {
		return nil
	}
	if err := os.Remove(c.file(sha256)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
