package console

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
)

// Retention returns the configured retention.
func Retention(cfg *config.Config) store.Policy {
	r := cfg.Store.Retention
	return store.Policy{MaxAge: r.MaxAge, MaxThreads: int(r.MaxThreads), KeepNamed: r.KeepNamed}
}

// tidyEvery is how often old threads are deleted in the background.
const tidyEvery = 24 * time.Hour

// tidyStamp is a file in the cache folder whose modification time is that of the last clean-up.
const tidyStamp = "tidied"

// tidy deletes old threads if a day has passed since the last time. It runs in the background and may be interrupted at any time.
func tidy(ctx context.Context, home string, cfg *config.Config, s *store.Store, log hclog.Logger) {
	stamp := filepath.Join(home, "cache", tidyStamp)
	before := time.Time{}
	if info, err := os.Stat(stamp); err == nil {
		before = info.ModTime()
	}
	if age := time.Since(before); age >= 0 && age < tidyEvery {
		return
	}
	// Update the time first, so that no other host starts as well.
	if err := touch(stamp, time.Now()); err != nil {
		log.Warn("can't store the time of the last clean-up", "err", err)
		return
	}
	r, err := s.Retain(ctx, Retention(cfg))
	if err == nil {
		log.Debug("cleaned up", "threads", len(r.Threads), "artifacts", r.Artifacts, "bytes", r.Bytes)
		return
	}
	if ctx.Err() == nil {
		log.Warn("clean-up failed", "err", err)
	}
	if err := touch(stamp, before); err != nil { // the next host continues
		log.Warn("can't store the time of the last clean-up", "err", err)
	}
}

// touch sets the modification time of a file; the zero time means long ago.
func touch(path string, at time.Time) error {
	if at.IsZero() {
		at = time.Unix(0, 0)
	}
	err := os.Chtimes(path, at, at)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Chtimes(path, at, at))
}
