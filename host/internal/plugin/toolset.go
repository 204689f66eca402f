package plugin

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
)

// maxToolSets bounds the cache of tool sets. Beyond it the oldest entry is removed.
const maxToolSets = 256

// toolSetCache stores the last tool set of each program and configuration, as the plugin sent it. An empty dir stores nothing.
// Like the manifests', entries are valid for one version of the host.
type toolSetCache struct {
	manifestCache
	limit int
}

func (s *Supervisor) toolSets() toolSetCache {
	if s.cfg.CachePath == "" {
		return toolSetCache{}
	}
	return toolSetCache{manifestCache{filepath.Join(s.cfg.CachePath, "tools"), s.cfg.HostVersion}, maxToolSets}
}

// configuration returns the digest of all that may make one program offer other tools: its configuration block as JSON, in
// which secrets are handles, and its environment.
func configuration(config []byte, env map[string]string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(config), config)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(h, "%d:%s%d:%s", len(name), name, len(env[name]), env[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}

func (c toolSetCache) get(key string) []byte {
	if c.dir == "" {
		return nil
	}
	b, err := os.ReadFile(c.file(key))
	if err != nil {
		return nil
	}
	return b
}

func (c toolSetCache) put(key string, set []byte) error {
	if c.dir == "" {
		return nil
	}
	if b, err := os.ReadFile(c.file(key)); err == nil && bytes.Equal(b, set) {
		return nil
	}
	return errors.Join(binary.WriteFile(c.file(key), set), c.prune())
}

// prune removes the oldest entries beyond the limit.
func (c toolSetCache) prune() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) <= c.limit {
		return err
	}
	var infos []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else another process has removed it
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	var errs []error
	for _, info := range infos[:max(0, len(infos)-c.limit)] {
		if err := os.Remove(filepath.Join(c.dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// KnownTools returns the tool set that this program sent last under the configuration block config, as [Lease.KeepTools] got
// it; nil if there is none, or if the binary can't be verified.
func (p *Slot) KnownTools(config []byte) []byte {
	spec := p.Spec()
	file, err := p.sup.cfg.verify(spec)
	if err != nil {
		return nil
	}
	program := p.sup.cfg.program(file.SHA256, spec)
	_ = file.Close()
	return p.sup.toolSets().get(program + "-" + configuration(config, spec.Env))
}

// KeepTools caches the tool set that this process sent, for [Slot.KnownTools] of a later host.
func (l *Lease) KeepTools(set []byte) {
	g := l.generation
	if err := g.toolSets.put(g.program+"-"+g.configuration, set); err != nil {
		g.logger.Warn("a tool set can't be cached, the next host waits for the plugin", "err", err)
	}
}
