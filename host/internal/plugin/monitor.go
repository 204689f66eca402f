package plugin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/host/internal/plugin/storage"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// monitor watches a running process: whether it answers, and whether it exceeds its limits.
type monitor struct {
	*generation
	storage  storage.Monitor
	measured time.Time // when storage was measured last
	checked  time.Time // when its health was checked last
	misses   int       // health checks in a row without an answer
}

// unusedFactor is how much less often the folders of an idle process are measured. It may write without being called.
const unusedFactor = 6

// monitor returns when the process has ended.
func (g *generation) monitor() {
	m := monitor{generation: g, storage: storage.Monitor{Folders: g.folders, MaxBytes: g.spec.Limits.StorageBytes}}
	health := time.NewTicker(g.times.healthBusy)
	defer health.Stop()
	var resources <-chan time.Time
	if g.spec.Limits.MemoryBytes > 0 || g.spec.Limits.Pids > 0 {
		t := time.NewTicker(g.times.resources)
		defer t.Stop()
		resources = t.C
	}
	var folders, disk <-chan time.Time
	var watch *time.Timer
	if m.storage.MaxBytes > 0 {
		t := time.NewTicker(g.times.storage)
		defer t.Stop()
		watch = time.NewTimer(g.times.disk)
		defer watch.Stop()
		folders, disk = t.C, watch.C
		_ = m.storage.MayExceed() // notes the disk's usage
	}
	for {
		select {
		case <-g.Exited():
			return
		case <-resources:
			m.checkUsage()
		case <-folders:
			if g.calls.usedSince(m.measured) || time.Since(m.measured) >= unusedFactor*g.times.storage {
				m.checkStorage()
			}
		case <-disk:
			if m.storage.MayExceed() {
				m.checkStorage()
			}
			next := g.times.diskIdle
			if g.calls.count() > 0 {
				next = g.times.disk
			}
			watch.Reset(next)
		case <-health.C:
			if !m.checkHealth() {
				return
			}
		}
	}
}

// checkHealth checks the health of the process if a check is due. It returns false if it has ended the process because it
// hangs.
func (m *monitor) checkHealth() bool {
	if requested, _ := m.ending.reason(); requested {
		return true // stop has its own timeouts
	}
	if m.calls.count() == 0 && m.misses == 0 && time.Since(m.checked) < m.times.healthIdle {
		return true
	}
	m.checked = time.Now()
	if m.answers() {
		m.misses = 0
		return true
	}
	m.misses++
	m.logger.Warn("plugin doesn't answer", "misses", m.misses, "pid", m.runner.process.PID())
	if m.misses < m.times.healthMisses {
		return true
	}
	m.ending.condemn(fmt.Sprintf("it hung: %d health checks of %v went unanswered", m.misses, m.times.healthDeadline))
	m.killForStacks()
	return false
}

// answers sends a health check. A plugin without the health service answers too, with an error.
func (m *monitor) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), m.times.healthDeadline)
	defer cancel()
	began := time.Now()
	r, err := grpc_health_v1.NewHealthClient(m.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: wire.HealthService})
	m.latency.Store(int64(time.Since(began)))
	switch status.Code(err) {
	case codes.OK:
		return r.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING
	case codes.Unimplemented, codes.NotFound, codes.Unauthenticated:
		return true
	}
	return false
}

// checkStorage measures the folders of the process, and kills it if they exceed their limit.
func (m *monitor) checkStorage() {
	m.measured = time.Now()
	bytes, entries, err := m.storage.Measure()
	limit := m.storage.MaxBytes
	switch {
	case err != nil:
		m.kill(fmt.Sprintf("its own folders can't be measured for limits { storage }: %v", err))
	case bytes > limit:
		m.kill(fmt.Sprintf("storage limit %s, limits { storage }: its own folders %s hold more", size(limit), strings.Join(m.folders, ", ")))
	case entries > storage.MaxEntries:
		m.kill(fmt.Sprintf("its own folders %s hold more than %d files", strings.Join(m.folders, ", "), storage.MaxEntries))
	}
}

// checkUsage kills the process if its tree exceeds its limits. It measures them itself because the kernel's accounting
// (control groups) can't be set up on every system.
func (m *monitor) checkUsage() {
	u, err := m.runner.process.Usage(false)
	if err != nil {
		return
	}
	switch limit := m.spec.Limits; {
	case limit.MemoryBytes > 0 && u.RSSBytes > limit.MemoryBytes:
		m.kill(fmt.Sprintf("memory limit %s: its processes used %s", size(limit.MemoryBytes), size(u.RSSBytes)))
	case limit.Pids > 0 && u.Processes > limit.Pids:
		m.kill(fmt.Sprintf("process limit %d: it had %d", limit.Pids, u.Processes))
	}
}

// kill ends the process for this reason.
func (m *monitor) kill(reason string) {
	m.ending.condemn(reason)
	m.runner.kill()
}

// size formats a number of bytes for people.
func size(n int64) string {
	for _, u := range [...]struct {
		unit  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes {
			if n%u.bytes == 0 {
				return fmt.Sprintf("%d%s", n/u.bytes, u.unit)
			}
			return fmt.Sprintf("%.1f%s", float64(n)/float64(u.bytes), u.unit)
		}
	}
	return fmt.Sprintf("%dB", n)
}
