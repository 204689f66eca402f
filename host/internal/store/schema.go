package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
)

// threadMigrations is the history of threads.db. Times are nanoseconds since 1970, 0 where there is none.
//
// events is the truth. threads, turns, items, passages, reverts and artifact_refs are derived from it in the same transaction.
func threadMigrations() []database.Migration {
	return []database.Migration{{
		Name: "threads, events and what belongs to them",
		SQL: []string{
			`CREATE TABLE events (
				id INTEGER PRIMARY KEY,
				thread_id TEXT NOT NULL,
				seq INTEGER NOT NULL,
				turn_id TEXT NOT NULL,
				time INTEGER NOT NULL,
				kind TEXT NOT NULL,
				body TEXT NOT NULL)`,
			`CREATE UNIQUE INDEX events_thread ON events (thread_id, seq)`,

			`CREATE TABLE threads (
				id TEXT PRIMARY KEY,
				seq INTEGER NOT NULL,
				run_id TEXT NOT NULL,
				created_at INTEGER NOT NULL,
				updated_at INTEGER NOT NULL,
				archived_at INTEGER NOT NULL DEFAULT 0,
				cwd TEXT NOT NULL DEFAULT '',
				model TEXT NOT NULL DEFAULT '',
				provider TEXT NOT NULL DEFAULT '',
				model_name TEXT NOT NULL DEFAULT '',
				source TEXT NOT NULL DEFAULT '',
				forked_from TEXT NOT NULL DEFAULT '',
				name TEXT NOT NULL DEFAULT '',
				preview TEXT NOT NULL DEFAULT '',
				status TEXT NOT NULL DEFAULT '',
				turns INTEGER NOT NULL DEFAULT 0,
				tokens TEXT NOT NULL DEFAULT '')`,
			`CREATE INDEX threads_updated ON threads (updated_at, id)`,
			`CREATE INDEX threads_cwd ON threads (cwd, updated_at)`,
			`CREATE INDEX threads_name ON threads (name) WHERE name <> ''`,

			`CREATE TABLE turns (
				thread_id TEXT NOT NULL,
				id TEXT NOT NULL,
				first_seq INTEGER NOT NULL,
				last_seq INTEGER NOT NULL DEFAULT 0,
				status TEXT NOT NULL,
				started_at INTEGER NOT NULL,
				ended_at INTEGER NOT NULL DEFAULT 0,
				PRIMARY KEY (thread_id, id))`,

			`CREATE TABLE items (
				thread_id TEXT NOT NULL,
				id TEXT NOT NULL,
				turn_id TEXT NOT NULL,
				call_id TEXT NOT NULL,
				type TEXT NOT NULL,
				status TEXT NOT NULL,
				first_seq INTEGER NOT NULL,
				last_seq INTEGER NOT NULL,
				PRIMARY KEY (thread_id, id))`,
			`CREATE INDEX items_order ON items (thread_id, first_seq)`,

			`CREATE TABLE artifacts (
				sha256 TEXT PRIMARY KEY,
				size INTEGER NOT NULL,
				media_type TEXT NOT NULL,
				name TEXT NOT NULL,
				created_at INTEGER NOT NULL,
				used_at INTEGER NOT NULL,
				holds INTEGER NOT NULL)`,
			`CREATE TABLE artifact_refs (
				sha256 TEXT NOT NULL,
				thread_id TEXT NOT NULL,
				PRIMARY KEY (sha256, thread_id))`,
			`CREATE INDEX artifact_refs_thread ON artifact_refs (thread_id)`,

			`CREATE TABLE runs (
				id TEXT PRIMARY KEY,
				pid INTEGER NOT NULL,
				host_version TEXT NOT NULL,
				started_at INTEGER NOT NULL,
				synced_at INTEGER NOT NULL,
				ended_at INTEGER NOT NULL)`,

			`CREATE TABLE agent_edges (
				child TEXT PRIMARY KEY,
				parent TEXT NOT NULL,
				status TEXT NOT NULL,
				created_at INTEGER NOT NULL,
				updated_at INTEGER NOT NULL,
				payload TEXT NOT NULL)`,
			`CREATE INDEX agent_edges_parent ON agent_edges (parent, created_at)`,

			`CREATE TABLE agent_messages (
				id INTEGER PRIMARY KEY AUTOINCREMENT,
				sender TEXT NOT NULL,
				recipient TEXT NOT NULL,
				created_at INTEGER NOT NULL,
				delivered_at INTEGER NOT NULL,
				payload TEXT NOT NULL)`,
			`CREATE INDEX agent_messages_recipient ON agent_messages (recipient, delivered_at, id)`,
			`CREATE INDEX agent_messages_sender ON agent_messages (sender)`,

			`CREATE TABLE settings (
				key TEXT PRIMARY KEY,
				value TEXT NOT NULL,
				updated_at INTEGER NOT NULL)`,
		},
	}, {
		Name: "what was said, for searching, and turns that were taken back",
		SQL: []string{
			`CREATE TABLE passages (
				id INTEGER PRIMARY KEY,
				thread_id TEXT NOT NULL,
				seq INTEGER NOT NULL,
				turn_id TEXT NOT NULL,
				role TEXT NOT NULL,
				text TEXT NOT NULL)`,
			`CREATE INDEX passages_thread ON passages (thread_id, seq)`,

			// Finds any part of a word, of three characters on. It keeps no text of its own, and follows passages by triggers.
			`CREATE VIRTUAL TABLE passages_index USING fts5 (text, content = 'passages', content_rowid = 'id', tokenize = 'trigram')`,
			`CREATE TRIGGER passages_added AFTER INSERT ON passages BEGIN
				INSERT INTO passages_index (rowid, text) VALUES (new.id, new.text);
			END`,
			`CREATE TRIGGER passages_removed AFTER DELETE ON passages BEGIN
				INSERT INTO passages_index (passages_index, rowid, text) VALUES ('delete', old.id, old.text);
			END`,

			`CREATE TABLE reverts (
				thread_id TEXT NOT NULL,
				seq INTEGER NOT NULL,
				from_seq INTEGER NOT NULL,
				through_seq INTEGER NOT NULL,
				PRIMARY KEY (thread_id, seq))`,

			// Threads that were stored before.
			fmt.Sprintf(`INSERT INTO passages (thread_id, seq, turn_id, role, text)
				SELECT thread_id, seq, turn_id, role, text FROM (
					SELECT e.thread_id, e.seq, e.turn_id, CASE i.type WHEN 'user_message' THEN 'user' ELSE 'agent' END AS role,
						CASE WHEN json_valid(e.body) THEN substr(json_extract(e.body, '$.item.text'), 1, %d) END AS text
					FROM items i JOIN events e ON e.thread_id = i.thread_id AND e.seq = i.last_seq
					WHERE i.type IN ('user_message', 'agent_message') AND e.kind = 'item.completed')
				WHERE text <> '' ORDER BY thread_id, seq`, maxPassageBytes),
		},
	}}
}

// eventRow is one durable event.
type eventRow struct {
	ID       int64 `gorm:"primaryKey"`
	ThreadID string
	Seq      uint64
	TurnID   string
	Time     int64
	Kind     string
	Body     string
}

func (eventRow) TableName() string { return "events" }

func (r eventRow) event() (event.Event, error) {
	e := event.Event{
		Seq: r.Seq, Thread: event.ThreadID(r.ThreadID), Turn: event.TurnID(r.TurnID), Time: timeOf(r.Time),
	}
	body, err := event.DecodeBody(r.Kind, []byte(r.Body))
	if err != nil {
		e.Body = event.Unknown{Name: r.Kind, Data: json.RawMessage(r.Body)}
		return e, &DecodeError{Thread: e.Thread, Seq: e.Seq, Kind: r.Kind, Err: err}
	}
	e.Body = body
	return e, nil
}

// threadRow is a line of a listing.
type threadRow struct {
	ID         string `gorm:"primaryKey"`
	Seq        uint64
	RunID      string
	CreatedAt  int64 `gorm:"autoCreateTime:false"`
	UpdatedAt  int64 `gorm:"autoUpdateTime:false"`
	ArchivedAt int64
	Cwd        string
	Model      string
	Provider   string
	ModelName  string
	Source     string
	ForkedFrom string
	Name       string
	Preview    string
	Status     string
	Turns      int
	Tokens     string
}

func (threadRow) TableName() string { return "threads" }

type turnRow struct {
	ThreadID  string `gorm:"primaryKey"`
	ID        string `gorm:"primaryKey"`
	FirstSeq  uint64
	LastSeq   uint64
	Status    string
	StartedAt int64
	EndedAt   int64
}

func (turnRow) TableName() string { return "turns" }

// itemRow finds an item. What it looks like is in the event LastSeq, so that it is stored once.
type itemRow struct {
	ThreadID string `gorm:"primaryKey"`
	ID       string `gorm:"primaryKey"`
	TurnID   string
	CallID   string
	Type     string
	Status   string
	FirstSeq uint64
	LastSeq  uint64
}

func (itemRow) TableName() string { return "items" }

// passageRow is what a user or an agent said: the beginning of it, for searching.
type passageRow struct {
	ID       int64 `gorm:"primaryKey"`
	ThreadID string
	Seq      uint64
	TurnID   string
	Role     string // [RoleUser] or [RoleAgent]
	Text     string
}

func (passageRow) TableName() string { return "passages" }

// revertRow says which events of a thread count no more: those behind ThroughSeq and before Seq. The turns that were taken
// back begin at FromSeq.
type revertRow struct {
	ThreadID   string `gorm:"primaryKey"`
	Seq        uint64 `gorm:"primaryKey"`
	FromSeq    uint64
	ThroughSeq uint64
}

func (revertRow) TableName() string { return "reverts" }

// artifactRow is a content-addressed file. Holds counts the puts that no thread's event has referred to yet.
type artifactRow struct {
	SHA256    string `gorm:"column:sha256;primaryKey"`
	Size      int64
	MediaType string
	Name      string
	CreatedAt int64 `gorm:"autoCreateTime:false"`
	UsedAt    int64
	Holds     int64
}

func (artifactRow) TableName() string { return "artifacts" }

type runRow struct {
	ID          string `gorm:"primaryKey"`
	PID         int    `gorm:"column:pid"`
	HostVersion string
	StartedAt   int64
	SyncedAt    int64
	EndedAt     int64
}

func (runRow) TableName() string { return "runs" }

type edgeRow struct {
	Child     string `gorm:"primaryKey"`
	Parent    string
	Status    string
	CreatedAt int64 `gorm:"autoCreateTime:false"`
	UpdatedAt int64 `gorm:"autoUpdateTime:false"`
	Payload   string
}

func (edgeRow) TableName() string { return "agent_edges" }

type messageRow struct {
	ID          int64 `gorm:"primaryKey"`
	Sender      string
	Recipient   string
	CreatedAt   int64 `gorm:"autoCreateTime:false"`
	DeliveredAt int64
	Payload     string
}

func (messageRow) TableName() string { return "agent_messages" }

type settingRow struct {
	Key       string `gorm:"primaryKey"`
	Value     string
	UpdatedAt int64 `gorm:"autoUpdateTime:false"`
}

func (settingRow) TableName() string { return "settings" }

// nanos and timeOf keep the zero time zero.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
