package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// AgentEdge says that one thread works for another.
type AgentEdge struct {
	Parent, Child event.ThreadID
	Status        string
	Payload       json.RawMessage // may be empty
	Created       time.Time       // set by PutAgentEdge
	Updated       time.Time       // set by PutAgentEdge
}

// PutAgentEdge adds an edge, or changes the status and payload of the child's one.
func (s *Store) PutAgentEdge(ctx context.Context, e AgentEdge) error {
	if e.Parent == "" || e.Child == "" {
		return fmt.Errorf("store agent edge: it needs a parent and a child")
	}
	now := time.Now().UnixNano()
	return s.change(ctx, func(tx *gorm.DB) error {
		return database.Exec(tx, `INSERT INTO agent_edges (child, parent, status, created_at, updated_at, payload) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (child) DO UPDATE SET parent = excluded.parent, status = excluded.status,
			updated_at = excluded.updated_at, payload = excluded.payload`,
			string(e.Child), string(e.Parent), e.Status, now, now, string(e.Payload))
	})
}

// AgentEdges lists the edges to a thread's children, in the order in which they were added.
func (s *Store) AgentEdges(ctx context.Context, parent event.ThreadID) ([]AgentEdge, error) {
	return s.agentEdges(ctx, "parent = ?", parent)
}

// AgentParent returns the edge to a thread's parent; false when it works for none.
func (s *Store) AgentParent(ctx context.Context, child event.ThreadID) (AgentEdge, bool, error) {
	edges, err := s.agentEdges(ctx, "child = ?", child)
	if err != nil || len(edges) == 0 {
		return AgentEdge{}, false, err
	}
	return edges[0], true, nil
}

func (s *Store) agentEdges(ctx context.Context, where string, thread event.ThreadID) ([]AgentEdge, error) {
	g, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	var rows []edgeRow
	if err := g.Where(where, string(thread)).Order("created_at, child").Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("list agents of thread %s: %w", thread, s.db.Explain(err))
	}
	edges := make([]AgentEdge, len(rows))
	for i, r := range rows {
		edges[i] = AgentEdge{
			Parent: event.ThreadID(r.Parent), Child: event.ThreadID(r.Child), Status: r.Status, Payload: payload(r.Payload),
			Created: database.Time(r.CreatedAt), Updated: database.Time(r.UpdatedAt),
		}
	}
	return edges, nil
}

// AgentMessage is something that one thread tells another.
type AgentMessage struct {
	ID        int64 // grows; set by AddAgentMessage
	From, To  event.ThreadID
	Payload   json.RawMessage
	Created   time.Time // set by AddAgentMessage
	Delivered time.Time // zero: not yet
}

// AddAgentMessage stores a message and returns its id once it is on the disk.
func (s *Store) AddAgentMessage(ctx context.Context, from, to event.ThreadID, message json.RawMessage) (int64, error) {
	if to == "" {
		return 0, fmt.Errorf("store agent message: it has no recipient")
	}
	row := messageRow{Sender: string(from), Recipient: string(to), CreatedAt: time.Now().UnixNano(), Payload: string(message)}
	err := s.change(ctx, func(tx *gorm.DB) error {
		row.ID = 0 // of an earlier try
		return tx.Create(&row).Error
	})
	if err != nil {
		return 0, err
	}
	return row.ID, nil
}

// AgentMessages lists the messages to a thread that were not delivered yet, or all, in the order in which they were added.
func (s *Store) AgentMessages(ctx context.Context, to event.ThreadID, all bool) ([]AgentMessage, error) {
	g, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	q := g.Where("recipient = ?", string(to)).Order("id")
	if !all {
		q = q.Where("delivered_at = 0")
	}
	var rows []messageRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("list messages to thread %s: %w", to, s.db.Explain(err))
	}
	messages := make([]AgentMessage, len(rows))
	for i, r := range rows {
		messages[i] = AgentMessage{
			ID: r.ID, From: event.ThreadID(r.Sender), To: event.ThreadID(r.Recipient), Payload: payload(r.Payload),
			Created: database.Time(r.CreatedAt), Delivered: database.Time(r.DeliveredAt),
		}
	}
	return messages, nil
}

// DeliveredAgentMessages marks messages as delivered.
func (s *Store) DeliveredAgentMessages(ctx context.Context, ids ...int64) error {
	if len(ids) == 0 {
		return nil
	}
	now := time.Now().UnixNano()
	return s.change(ctx, func(tx *gorm.DB) error {
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
