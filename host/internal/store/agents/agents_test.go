package agents_test

import (
	"testing"

	"github.com/gantry-agent/gantry/host/internal/store/agents"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres/postgrestest"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOnPostgreSQL runs all other tests of this package on a server.
func TestOnPostgreSQL(t *testing.T) { postgrestest.Rerun(t) }

func TestAgents(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t).Agents()
	ctx := t.Context()
	if err := s.PutEdge(ctx, agents.Edge{Parent: "p", Child: "c1", Status: "running", Payload: []byte(`{"role":"r"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutEdge(ctx, agents.Edge{Parent: "p", Child: "c2", Status: "running"}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutEdge(ctx, agents.Edge{Parent: "p", Child: "c1", Status: "done"}); err != nil {
		t.Fatal(err)
	}
	edges, err := s.Edges(ctx, "p")
	if err != nil || len(edges) != 2 || edges[0].Child != "c1" || edges[0].Status != "done" || edges[1].Child != "c2" ||
		edges[0].Payload != nil || edges[0].Updated.Before(edges[0].Created) {
		t.Errorf("edges = %+v, %v", edges, err)
	}
	if e, ok, err := s.Parent(ctx, "c2"); err != nil || !ok || e.Parent != "p" {
		t.Errorf("parent of c2: %+v, %v, %v", e, ok, err)
	}
	if _, ok, err := s.Parent(ctx, "p"); err != nil || ok {
		t.Errorf("p has a parent: %v, %v", ok, err)
	}
	if err := s.PutEdge(ctx, agents.Edge{Parent: "p"}); err == nil {
		t.Error("an edge without a child is accepted")
	}

	var sent []int64
	for _, text := range []string{`"one"`, `"two"`, `"three"`} {
		id, err := s.AddMessage(ctx, "p", "c1", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, id)
	}
	if err := s.SetDelivered(ctx, sent[0], sent[2]); err != nil {
		t.Fatal(err)
	}
	open, err := s.Messages(ctx, "c1", false)
	if err != nil || len(open) != 1 || open[0].ID != sent[1] || string(open[0].Payload) != `"two"` || open[0].From != "p" {
		t.Errorf("open = %+v, %v", open, err)
	}
	all, err := s.Messages(ctx, "c1", true)
	if err != nil || len(all) != 3 || all[0].Delivered.IsZero() || !all[1].Delivered.IsZero() {
		t.Errorf("all = %+v, %v", all, err)
	}
	if _, err := s.AddMessage(ctx, "p", "", []byte("1")); err == nil {
		t.Error("a message without a recipient is accepted")
	}
	if err := s.SetDelivered(ctx); err != nil {
		t.Error(err)
	}
}
