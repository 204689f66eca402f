// Package agents stores which threads work for which others, and the messages between them.
//
// It owns: the tables agent_edges and agent_messages. It must not know: what an edge or a message means to the threads.
//
// Start with [Agents].
package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// DB is the database of the store that the tables are in. What Change does is durable when it returns.
type DB interface {
	Read(ctx context.Context) (*gorm.DB, error)
	Change(ctx context.Context, fn func(tx *gorm.DB) error) error
	Explain(err error) error
}

// Agents is the part of a store with edges and messages. Its methods may be called from several goroutines.
type Agents struct{ DB DB }

// Edge says that one thread works for another.
type Edge struct {
	Parent, Child event.ThreadID
	Status        string
	Payload       json.RawMessage // may be empty
	Created       time.Time       // set by PutEdge
	Updated       time.Time       // set by PutEdge
}

// PutEdge adds an edge, or replaces the child's edge.
func (a Agents) PutEdge(ctx context.Context, e Edge) error {
	if e.Parent == "" || e.Child == "" {
		return fmt.Errorf("store agent edge: it needs a parent and a child")
	}
	now := time.Now().UnixNano()
	return a.DB.Change(ctx, func(tx *gorm.DB) error {
		return database.Exec(tx, `INSERT INTO agent_edges (child, parent, status, created_at, updated_at, payload) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (child) DO UPDATE SET parent = excluded.parent, status = excluded.status,
			updated_at = excluded.updated_at, payload = excluded.payload`,
			string(e.Child), string(e.Parent), e.Status, now, now, string(e.Payload))
	})
}

// Edges lists the edges to a thread's children, in the order in which they were added.
func (a Agents) Edges(ctx context.Context, parent event.ThreadID) ([]Edge, error) {
	return a.edges(ctx, "parent = ?", parent)
}

// Parent returns the edge to a thread's parent, and false if there is none.
func (a Agents) Parent(ctx context.Context, child event.ThreadID) (Edge, bool, error) {
	edges, err := a.edges(ctx, "child = ?", child)
	if err != nil || len(edges) == 0 {
		return Edge{}, false, err
	}
	return edges[0], true, nil
}

func (a Agents) edges(ctx context.Context, where string, thread event.ThreadID) ([]Edge, error) {
	g, err := a.DB.Read(ctx)
	if err != nil {
		return nil, err
	}
	var rows []edgeRow
	if err := g.Where(where, string(thread)).Order("created_at, child").Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("list agents of thread %s: %w", thread, a.DB.Explain(err))
	}
	edges := make([]Edge, len(rows))
	for i, r := range rows {
		edges[i] = Edge{
			Parent: event.ThreadID(r.Parent), Child: event.ThreadID(r.Child), Status: r.Status, Payload: payload(r.Payload),
			Created: database.Time(r.CreatedAt), Updated: database.Time(r.UpdatedAt),
		}
	}
	return edges, nil
}

// Message is a message from one thread to another.
type Message struct {
	ID        int64 // increasing; set by AddMessage
	From, To  event.ThreadID
	Payload   json.RawMessage
	Created   time.Time // set by AddMessage
	Delivered time.Time // zero: not delivered yet
}

// AddMessage stores a message and returns its ID once it is durable.
func (a Agents) AddMessage(ctx context.Context, from, to event.ThreadID, message json.RawMessage) (int64, error) {
	if to == "" {
		return 0, fmt.Errorf("store agent message: it has no recipient")
	}
	row := messageRow{Sender: string(from), Recipient: string(to), CreatedAt: time.Now().UnixNano(), Payload: string(message)}
	err := a.DB.Change(ctx, func(tx *gorm.DB) error {
		row.ID = 0 // an earlier try may have set it
		return tx.Create(&row).Error
	})
	if err != nil {
		return 0, err
	}
	return row.ID, nil
}

// Messages lists the undelivered messages to a thread, or all of them, in the order in which they were added.
func (a Agents) Messages(ctx context.Context, to event.ThreadID, all bool) ([]Message, error) {
	g, err := a.DB.Read(ctx)
	if err != nil {
		return nil, err
	}
	q := g.Where("recipient = ?", string(to)).Order("id")
	if !all {
		q = q.Where("delivered_at = 0")
	}
	var rows []messageRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("list messages to thread %s: %w", to, a.DB.Explain(err))
	}
	messages := make([]Message, len(rows))
	for i, r := range rows {
		messages[i] = Message{
			ID: r.ID, From: event.ThreadID(r.Sender), To: event.ThreadID(r.Recipient), Payload: payload(r.Payload),
			Created: database.Time(r.CreatedAt), Delivered: database.Time(r.DeliveredAt),
		}
	}
	return messages, nil
}

// SetDelivered marks messages as delivered.
func (a Agents) SetDelivered(ctx context.Context, ids ...int64) error {
	if len(ids) == 0 {
		return nil
	}
	now := time.Now().UnixNano()
	return a.DB.Change(ctx, func(tx *gorm.DB) error {
		for _, id := range ids {
			if err := database.Exec(tx, "UPDATE agent_messages SET delivered_at = ? WHERE id = ? AND delivered_at = 0", now, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func payload(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

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
