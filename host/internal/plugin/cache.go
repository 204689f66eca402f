package plugin

import (
	"bytes"
	"crypto/sha256"
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
//
// Entries hold for one version of the host, so what is in the cache has passed this host's own checks.
type manifestCache struct{ dir, hostVersion string }

func (c manifestCache) file(sum string) string {
	host := sha256.Sum256([]byte(c.hostVersion))
	return filepath.Join(c.dir, fmt.Sprintf("%s-v%d-%s-%s-%x.json", sum, contract.Version, runtime.GOOS, runtime.GOARCH, host[:4]))
}

// holds tells whether the entry is exactly this manifest, which is the usual case and needs no parsing.
func (c manifestCache) holds(sum string, canonical []byte) bool {
	if c.dir == "" {
		return false
	}
	b, err := os.ReadFile(c.file(sum))
	return err == nil && bytes.Equal(b, canonical)
}

// get returns nil when there is none. A damaged entry counts as none and is replaced by the next start.
func (c manifestCache) get(sum string) *contract.Manifest {
	if c.dir == "" {
		return nil
	}
	b, err := os.ReadFile(c.file(sum))
	if err != nil {
		return nil
	}
	m, err := contract.ParseManifest(b)
	if err != nil {
		return nil
	}
	return m
}

func (c manifestCache) put(sum string, m *contract.Manifest) error {
	if c.dir == "" {
		return nil
	}
	return binary.WriteFile(c.file(sum), m.Canonical())
}

// forget removes an entry: the binary doesn't describe itself so any more.
func (c manifestCache) forget(sum string) error {
	if c.dir == "" {
		return nil
	}
	if err := os.Remove(c.file(sum)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
