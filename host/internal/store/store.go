// Package store stores the events of threads and the artifacts that they refer to, and finds them again.
//
// It owns: threads.db with the event log and the tables derived from it, the artifact folder, and the writer locks of
// threads. It must not know: which process runs a thread, what other packages derive from an event, how a thread is resumed.
//
// [Store.Append] queues events for one writing goroutine, which commits them in batches. [Store.Barrier] waits for the commit
// of events that must be durable before the caller continues. Reads use connections of their own; only listing and resuming
// need them.
//
// Start with [Open] and [Store.Append]. Package sink contains the queue, writer.go what a commit writes.
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
	"github.com/gantry-agent/gantry/host/internal/store/artifacts"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/database/sqlite"
	"github.com/gantry-agent/gantry/host/internal/store/sink"
	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
)

const (
	// DefaultBatchRows is the number of events at which a batch is committed at once. The fixed cost of a transaction is small
	// per event by then.
	DefaultBatchRows = 64
	// DefaultBatchDelay is how long an event waits for others to share its commit; a barrier commits at once. The delay is longer
	// than the time between the result of a call and the start of the next one if the model answers immediately. A call then
	// takes one commit instead of two, of which the second would wait for the first.
	DefaultBatchDelay = 10 * time.Millisecond
	// DefaultQueueRows and DefaultQueueBytes limit the queue; beyond them Append waits.
	DefaultQueueRows  = 1024
	DefaultQueueBytes = 16 << 20
	// DefaultKeepRows and DefaultKeepBytes limit what a degraded store keeps in memory: hours of one thread's events. Beyond
	// them Append fails with a [*FullError].
	DefaultKeepRows  = 16384
	DefaultKeepBytes = 32 << 20
)

// Driver connects to databases of one kind. The driver for SQLite is built in.
type Driver = database.Driver

// Database is the location of a store's tables. The zero Database is an SQLite file.
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

// Config configures a store. Zero fields mean the documented defaults.
type Config struct {
	Path        string       // threads.db; its folder is created if missing, and contains artifacts and locks by default
	Database    Database     // default: the file at Path
	ArtifactDir string       // default: "artifacts" in the folder of Path
	LockDir     string       // writer locks of threads; default: "locks" in the folder of Path
	HostVersion string       // recorded with this run, and used in messages about schema versions
	Logger      hclog.Logger // default: none

	BatchRows        int
	BatchDelay       time.Duration
	QueueRows        int
	QueueBytes       int
	KeepRows         int
	KeepBytes        int
	BusyWait         time.Duration // default [database.DefaultBusyWait]
	MaxArtifactBytes int64         // default [DefaultMaxArtifactBytes]

	// OnDegraded is called once with a [*DegradedError] when writing stops working, and once with nil when it works again. It
	// has a goroutine of its own and may use the store.
	OnDegraded func(error)

	// ReadOnly opens an existing store without creating or changing a file. A store with an older schema is refused, since its
	// schema can't be upgraded.
	ReadOnly bool

	// RefuseReads makes every method that reads the log fail with [ErrReadsRefused], for tests which prove that an operation
	// doesn't read it.
	RefuseReads bool

	// WrapCommit is called for every commit. Tests use it to inject faults; see storetest.Faults.
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

// Store is an open store. Its methods may be called concurrently.
type Store struct {
	cfg    Config
	db     access
	locks  database.Locks // of threads
	files  artifacts.Folder
	writer *writer
}

// Open opens or creates the store and starts its writer, which Close ends. Several processes may have the same store open. If a
// newer gantry has upgraded the schema, the error is a [*database.NewerError]. A damaged file is set aside and replaced by a new one with
// what is intact, which is logged.
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
	if database.IsDamaged(err) && !cfg.ReadOnly {
		db, err = replaceDamaged(ctx, cfg, what, err)
	}
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

// Append queues durable events for writing, and ignores transient ones. Either all of them are accepted or none, and they are
// committed together: after a crash either all of them are stored or none. Append returns before they are committed. While the
// queue is full it waits, until ctx ends.
//
// The events of a thread must come in order without gaps; otherwise the error is an [*OrderError]. A degraded store keeps events
// in memory; once that is full Append fails with a [*FullError], and the same events may be appended again later. A
// [*ConflictError] says that another process has written to the thread.
//
// Append retains nothing that the events point to.
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

// Barrier returns when all events of the thread up to seq are durable: they survive a crash of this process and of the machine.
// While nothing can be written it fails with a [*DegradedError]; the caller must not do then what depends on the events.
func (s *Store) Barrier(ctx context.Context, thread event.ThreadID, seq uint64) error {
	crashpoint.At(crashpoint.BarrierBefore, "")
	err := s.db.sink.Await(ctx, thread, seq, true)
	crashpoint.At(crashpoint.BarrierAfter, "")
	return err
}

// AwaitCommit returns when all events of the thread up to seq survive a crash of this process. While nothing can be written it fails with a
// [*DegradedError].
func (s *Store) AwaitCommit(ctx context.Context, thread event.ThreadID, seq uint64) error {
	return s.db.sink.Await(ctx, thread, seq, false)
}

// Degraded returns nil while writing works, else the [*DegradedError].
func (s *Store) Degraded() error { return s.db.sink.Degraded() }

// About describes the database and its version, for people.
func (s *Store) About(ctx context.Context) (string, error) { return s.db.About(ctx) }

// Close writes the appended events and closes the store. If ctx ends first, or nothing can be written, the remaining events are
// lost, and the error says how many. Further calls do nothing.
func (s *Store) Close(ctx context.Context) error {
	if s.Degraded() == nil && !s.cfg.ReadOnly {
		// Last of all. If this fails, the run is merely listed as one that was killed.
		if err := s.db.Change(ctx, s.writer.endRun); err != nil && !errors.Is(err, ErrClosed) {
			s.cfg.Logger.Warn("note the end of the run", "err", err)
		}
	}
	err := s.db.sink.Close(ctx)
	return errors.Join(err, s.db.Close())
}
