// Package store writes down what happens in threads, keeps the artifacts that they mention, and finds both again.
//
// It owns: threads.db with the event log and the rows derived from it, the artifact folder, the writer locks of threads,
// and state.db with the keys and leases of plugins. It must not know: who runs a thread, what an event means to anybody
// else, how a thread is resumed.
//
// The log is a sink. [Store.Append] hands events to one writing goroutine, which commits them in batches; [Store.Barrier]
// waits for the commit where something depends on it. Reading has connections of its own and serves listing and resume.
//
// Start with [Open] and [Store.Append]; sink.go shows how the parts stand to each other, writer.go what a commit does.
package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/privatedir"
	"github.com/gantry-agent/gantry/host/internal/store/agents"
	"github.com/gantry-agent/gantry/host/internal/store/artifacts"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/database/sqlite"
	"github.com/gantry-agent/gantry/host/internal/store/sink"
	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
)

const (
	// DefaultBatchRows: a transaction's fixed costs are spread thin by then.
	DefaultBatchRows = 64
	// DefaultBatchDelay is how long an event waits for company. Whoever can't wait uses a barrier. It is longer than the way from a
	// call's result to the next call's start where the model answers at once: then a call costs one commit and not two, of which the
	// second would wait for the first.
	DefaultBatchDelay = 10 * time.Millisecond
	// DefaultQueueRows and DefaultQueueBytes bound what waits to be written; beyond them Append waits.
	DefaultQueueRows  = 1024
	DefaultQueueBytes = 16 << 20
	// DefaultKeepRows and DefaultKeepBytes bound what a degraded store keeps in memory: hours of one thread's events.
	// Beyond them Append fails with a [*FullError].
	DefaultKeepRows  = 16384
	DefaultKeepBytes = 32 << 20
)

// Driver connects to databases of one kind. The store brings SQLite's along.
type Driver = database.Driver

// Database says where the tables of a store are. The zero Database is a file of SQLite.
type Database struct {
	Driver Driver
	Source string // the address of the server
}

// Config returns what to open: the file at path unless there is a driver.
func (d Database) Config(path string) database.Config {
	if d.Driver == nil {
		return database.Config{Driver: sqlite.Driver{}, Source: path}
	}
	return database.Config{Driver: d.Driver, Source: d.Source}
}

// Config says where a store is and how it behaves. Zero fields mean the documented defaults.
type Config struct {
	Path        string       // threads.db; its folder is made if missing, and what is in files lies there in any case
	Database    Database     // default: Path
	ArtifactDir string       // default: artifacts beside Path
	LockDir     string       // writer locks of threads; default: locks beside Path
	HostVersion string       // recorded with this run, and named in messages about schema versions
	Logger      hclog.Logger // default: none

	BatchRows        int
	BatchDelay       time.Duration
	QueueRows        int
	QueueBytes       int
	KeepRows         int
	KeepBytes        int
	BusyWait         time.Duration // default [database.DefaultBusyWait]
	MaxArtifactBytes int64         // default [DefaultMaxArtifactBytes]

	// OnDegraded is told once when writing stops working (with a [*DegradedError]) and once when it works again (with
	// nil). It runs on a goroutine of its own and may use the store.
	OnDegraded func(error)

	// ReadOnly opens a store that is there for reading alone, and makes and changes no file. A store whose schema is older is
	// refused, since it can't be brought up to date.
	ReadOnly bool

	// RefuseReads makes every method that reads the log fail with [ErrReadsRefused]. It is for tests that prove that
	// something does without.
	RefuseReads bool

	// WrapCommit stands around every commit. It is for tests; see storetest.Faults.
	WrapCommit func(commit func() error) error
}

func (c Config) withDefaults() Config {
	dir := filepath.Dir(c.Path)
	def(&c.ArtifactDir, filepath.Join(dir, "artifacts"))
	def(&c.LockDir, filepath.Join(dir, "locks"))
	def(&c.BatchRows, DefaultBatchRows)
	def(&c.BatchDelay, DefaultBatchDelay)
	def(&c.QueueRows, DefaultQueueRows)
	def(&c.QueueBytes, DefaultQueueBytes)
	def(&c.KeepRows, DefaultKeepRows)
	def(&c.KeepBytes, DefaultKeepBytes)
	def(&c.BusyWait, database.DefaultBusyWait)
	def(&c.MaxArtifactBytes, DefaultMaxArtifactBytes)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	c.Logger = c.Logger.Named("store")
	if c.WrapCommit == nil {
		c.WrapCommit = func(commit func() error) error { return commit() }
	}
	return c
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Store is an open store. Its methods may be called from several goroutines.
type Store struct {
	cfg    Config
	db     access
	locks  database.Locks // of threads
	files  artifacts.Folder
	writer *writer
}

// Open opens or creates the store and starts its writer. Close ends it. Several processes may have the same store open.
//
// A store that a later gantry has migrated is a [*database.NewerError].
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Path == "" {
		return nil, errors.New("open store: no path")
	}
	cfg = cfg.withDefaults()
	for _, dir := range []string{cfg.ArtifactDir, cfg.LockDir} {
		if cfg.ReadOnly {
			break
		}
		if err := privatedir.Make(dir); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	what := cfg.Database.Config(cfg.Path)
	what.Schema, what.Migrations, what.HostVersion, what.BusyWait = "threads", threadMigrations(), cfg.HostVersion, cfg.BusyWait
	what.ReadOnly = cfg.ReadOnly
	db, err := database.Open(ctx, what)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, locks: db.Locks(cfg.LockDir), files: artifacts.Folder{Dir: cfg.ArtifactDir, MaxBytes: cfg.MaxArtifactBytes}}
	s.writer = &writer{db: db, locks: s.locks, files: s.files, wrapCommit: cfg.WrapCommit, run: runRow{
		ID: uuid.Must(uuid.NewV7()).String(), PID: os.Getpid(), HostVersion: cfg.HostVersion, StartedAt: time.Now().UnixNano(),
	}}
	s.db = access{DB: db, refuseReads: cfg.RefuseReads, sink: sink.Start(sink.Config{
		BatchRows: cfg.BatchRows, BatchDelay: cfg.BatchDelay, QueueRows: cfg.QueueRows, QueueBytes: cfg.QueueBytes,
		KeepRows: cfg.KeepRows, KeepBytes: cfg.KeepBytes, Where: db.Where(),
		Write: s.writer.write, Maintain: db.Maintain, OnDegraded: cfg.OnDegraded, Log: s.cfg.Logger,
	})}
	return s, nil
}

// Append hands durable events over to be written; transient ones are passed over. They are taken all or none, and committed
// together: after a crash all of them are there, or none. It returns before they are committed. While the queue is full it waits, until ctx ends.
//
// The events of a thread must come in order without gaps ([*OrderError]). A degraded store keeps events in memory; once
// that is full Append fails with a [*FullError], and the same events may be appended again later. A [*ConflictError] says
// that somebody else has written to the thread.
//
// Append keeps nothing of the events: the caller may change what they point to.
func (s *Store) Append(ctx context.Context, evs ...event.Event) error {
	entries := make([]sink.Entry, 0, len(evs))
	for _, e := range evs {
		if e.Body == nil {
			return fmt.Errorf("store event %d of thread %s: it has no body", e.Seq, e.Thread)
		}
		if !e.Durable() {
			continue
		}
		rec, err := newRecord(e)
		if err != nil {
			return err
		}
		entries = append(entries, sink.Entry{Thread: e.Thread, Seq: e.Seq, Size: rec.size(), Value: &rec})
	}
	if len(entries) == 0 {
		return nil
	}
	crashPoints(crashpoint.AppendBefore, entries)
	err := s.db.sink.Deliver(ctx, entries...)
	crashPoints(crashpoint.AppendAfter, entries)
	return err
}

// crashPoints passes a point with each event.
func crashPoints(p crashpoint.Point, entries []sink.Entry) {
	if !crashpoint.Enabled {
		return
	}
	for _, e := range entries {
		crashpoint.At(p, e.Value.(*record).Kind)
	}
}

// Barrier returns when every event of the thread up to seq is on the disk: it survives the end of this process and of the
// machine. It fails with a [*DegradedError] while nothing can be written; then what the barrier stands before must not
// happen.
func (s *Store) Barrier(ctx context.Context, thread event.ThreadID, seq uint64) error {
	crashpoint.At(crashpoint.BarrierBefore, "")
	err := s.db.sink.Await(ctx, thread, seq, true)
	crashpoint.At(crashpoint.BarrierAfter, "")
	return err
}

// Agents returns the part of the store with the edges and messages between threads.
func (s *Store) Agents() agents.Agents { return agents.Agents{DB: s.db} }

// Degraded returns nil while writing works, else the [*DegradedError].
func (s *Store) Degraded() error { return s.db.sink.Degraded() }

// About says what the store's database is and in which version, for people.
func (s *Store) About(ctx context.Context) (string, error) { return s.db.About(ctx) }

// Close writes what was appended and ends the store. When ctx ends first, or writing does not work, what is left is given
// up and the error says how much. Calling it again does nothing.
func (s *Store) Close(ctx context.Context) error {
	if s.Degraded() == nil && !s.cfg.ReadOnly {
		// Behind everything else. Without it the run counts as one that was killed, which is the worst of it.
		if err := s.db.Change(ctx, s.writer.endRun); err != nil && !errors.Is(err, ErrClosed) {
			s.cfg.Logger.Warn("note the end of the run", "err", err)
		}
	}
	err := s.db.sink.Close(ctx)
	return errors.Join(err, s.db.Close())
}
