package plugin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/wire"
)

// look watches a process until it ends: whether it still answers, what it uses where that is limited, and whether it is
// needed, which idle is called for.
func (g *generation) look(idle func()) {
	health := time.NewTicker(g.times.healthBusy)
	defer health.Stop()
	var resources <-chan time.Time
	if g.spec.Limits.MemoryBytes > 0 || g.spec.Limits.Pids > 0 {
		t := time.NewTicker(g.times.resources)
		defer t.Stop()
		resources = t.C
	}
	var storage, disk <-chan time.Time
	var measured time.Time
	var watch *time.Timer
	s := storageWatch{folders: g.folders, most: g.spec.Limits.StorageBytes}
	if s.most > 0 {
		t := time.NewTicker(g.times.storage)
		defer t.Stop()
		watch = time.NewTimer(g.times.disk)
		defer watch.Stop()
		storage, disk = t.C, watch.C
		_ = s.mayExceed() // from here on
	}
	var unused <-chan time.Time
	if g.spec.IdleStop > 0 {
		t := time.NewTicker(g.spec.IdleStop)
		defer t.Stop()
		unused = t.C
	}
	var lastCheck time.Time
	misses := 0
	for {
		select {
		case <-g.Exited():
			return
		case <-resources:
			g.checkUsage()
		case <-storage:
			if g.usedSince(measured) || time.Since(measured) >= unusedFactor*g.times.storage {
				measured = time.Now()
				g.checkStorage(&s)
			}
		case <-disk:
			if s.mayExceed() {
				measured = time.Now()
				g.checkStorage(&s)
			}
			next := g.times.diskIdle
			if g.calls() > 0 {
				next = g.times.disk
			}
			watch.Reset(next)
		case <-unused:
			if g.unused() {
				idle()
			}
		case <-health.C:
			if g.wasAsked() {
				continue // the stop ladder has its own bounds
			}
			if g.calls() == 0 && misses == 0 && time.Since(lastCheck) < g.times.healthIdle {
				continue
			}
			lastCheck = time.Now()
			if g.healthy() {
				misses = 0
				continue
			}
			misses++
			g.logger.Warn("plugin doesn't answer", "misses", misses, "pid", g.runner.process.PID())
			if misses >= g.times.healthMisses {
				g.condemn(fmt.Sprintf("it hung: %d health checks of %v went unanswered", misses, g.times.healthDeadline))
				g.abort()
				return
			}
		}
	}
}

// unusedFactor is how much rarer the folders of a process are measured that is not called: it may write on its own.
const unusedFactor = 6

// unused tells whether nobody called for the whole idle time.
func (g *generation) unused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.calls == 0 && time.Since(g.mu.lastUse) >= g.spec.IdleStop
}

// usedSince tells whether it was called since then, or is.
func (g *generation) usedSince(t time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.calls > 0 || g.mu.lastUse.After(t)
}

// checkStorage ends a process whose folders hold more than they may, and whose memory does.
func (g *generation) checkStorage(s *storageWatch) {
	bytes, entries, err := s.measure()
	limit := size(g.spec.Limits.StorageBytes)
	switch {
	case err != nil:
		g.condemn(fmt.Sprintf("its own folders can't be measured for limits { storage }: %v", err))
	case bytes > g.spec.Limits.StorageBytes:
		g.condemn(fmt.Sprintf("storage limit %s, limits { storage }: its own folders %s hold more", limit, strings.Join(g.folders, ", ")))
	case entries > maxEntries:
		g.condemn(fmt.Sprintf("its own folders %s hold more than %d files", strings.Join(g.folders, ", "), maxEntries))
	default:
		return
	}
	g.runner.kill()
}

// healthy asks the process. A plugin without the health service answers too, if only that it has none.
func (g *generation) healthy() bool {
	ctx, cancel := context.WithTimeout(context.Background(), g.times.healthDeadline)
	defer cancel()
	began := time.Now()
	r, err := grpc_health_v1.NewHealthClient(g.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: wire.HealthService})
	g.latency.Store(int64(time.Since(began)))
	switch status.Code(err) {
	case codes.OK:
		return r.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING
	case codes.Unimplemented, codes.NotFound, codes.Unauthenticated:
		return true
	}
	return false
}

func (g *generation) healthLatency() time.Duration { return time.Duration(g.latency.Load()) }

// checkUsage ends a process whose tree exceeds its limits. The kernel's own accounting is not ours to set up everywhere.
func (g *generation) checkUsage() {
	u, err := g.runner.process.Usage(false)
	if err != nil {
		return
	}
	switch limit := g.spec.Limits; {
	case limit.MemoryBytes > 0 && u.RSSBytes > limit.MemoryBytes:
		g.condemn(fmt.Sprintf("memory limit %s: its processes used %s", size(limit.MemoryBytes), size(u.RSSBytes)))
	case limit.Pids > 0 && u.Processes > limit.Pids:
		g.condemn(fmt.Sprintf("process limit %d: it had %d", limit.Pids, u.Processes))
	default:
		return
	}
	g.runner.kill()
}

// size writes bytes as people do.
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
