package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// call is a call of a client while its thread works on it.
type call struct {
	server  *Server
	session *mcp.ServerSession
	token   any // of the client, for progress; nil: it wants none
	thread  *hub.Thread
	asking  sync.WaitGroup
	done    chan struct{} // closed when it has ended

	// Used by the goroutine that follows the thread.
	steps   int                           // that were reported
	items   map[event.CallID]event.Item   // of calls that run
	unasked map[event.CallID]bool         // calls that were refused because nobody could be asked
	asked   map[string]context.CancelFunc // questions that the client has, by their ID
	served  map[event.CallID]bool         // calls of tools of MCP servers

	mu      sync.Mutex
	refused []string
}

// begin begins a call on a thread, after the calls of clients that work on it: each has a turn of its own, and the end of one that is
// cancelled is not the end of the next one. end is called in any case.
func begin(ctx context.Context, s *Server, req *mcp.CallToolRequest, t *hub.Thread) (c *call, end func(), err error) {
	c = &call{
		done: make(chan struct{}), server: s, session: req.Session, token: req.Params.GetProgressToken(), thread: t,
		items: map[event.CallID]event.Item{}, unasked: map[event.CallID]bool{}, asked: map[string]context.CancelFunc{}, served: map[event.CallID]bool{},
	}
	var earlier []*call
	s.mu.Lock()
	for o := range s.running {
		if o.thread.ID() == t.ID() {
			earlier = append(earlier, o)
		}
	}
	s.running[c] = struct{}{}
	s.mu.Unlock()
	end = func() {
		s.mu.Lock()
		delete(s.running, c)
		s.mu.Unlock()
		close(c.done)
	}
	for _, o := range earlier {
		select {
		case <-o.done:
		case <-ctx.Done():
			return nil, end, context.Cause(ctx)
		}
	}
	return c, end, nil
}

// attend says that the client's user can answer questions, if the client can put them.
func (c *call) attend(ctx context.Context) (leave func(), err error) {
	if !c.elicits() {
		return func() {}, nil
	}
	return c.thread.Attend(ctx)
}

// interruptTime bounds how long a call that was cancelled waits for the end of its turn.
const interruptTime = 30 * time.Second

// turn follows the thread until a turn has ended. When ctx ends, the turn is interrupted.
func (c *call) turn(ctx context.Context, events *hub.Events, turn event.TurnID) (event.TurnEnded, error) {
	defer c.asking.Wait()
	defer c.withdraw()
	for {
		e, err := events.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTime)
				defer cancel()
				if err := c.thread.Interrupt(stop, turn); err != nil {
					c.server.log.Debug("turn not interrupted", "thread", c.thread.ID(), "turn", turn, "err", err)
				}
			}
			return event.TurnEnded{}, err
		}
		if e.Turn != turn {
			continue
		}
		if end, ok := e.Body.(event.TurnEnded); ok {
			return end, nil
		}
		c.apply(ctx, e)
	}
}

// follow tells the client what happens until the end of a turn, or of ctx. It returns when no question is open.
func (c *call) follow(ctx context.Context, events *hub.Events) {
	defer c.asking.Wait()
	defer c.withdraw()
	for {
		e, err := events.Next(ctx)
		if err != nil {
			return
		}
		if _, ok := e.Body.(event.TurnEnded); ok {
			return
		}
		c.apply(ctx, e)
	}
}

// apply tells the client what an event means for it.
func (c *call) apply(ctx context.Context, e event.Event) {
	switch b := e.Body.(type) {
	case event.ItemStarted:
		c.items[b.Item.Call] = b.Item
		c.served[b.Item.Call] = b.Item.Type == event.ItemMCPCall
		c.report(ctx, step(b.Item))
	case event.ItemDelta:
		if b.Delta == event.DeltaProgress {
			c.report(ctx, b.Text)
		}
	case event.ItemCompleted:
		delete(c.items, b.Item.Call)
		if c.unasked[b.Item.Call] {
			c.refuse(b.Item)
		}
		delete(c.unasked, b.Item.Call)
		if b.Item.Type == event.ItemAgentMessage {
			c.report(ctx, b.Item.Text)
		}
	case event.CallDecided:
		c.unasked[b.Call] = !b.Allowed && (b.By == "nobody" || b.By == "timeout")
	case event.QuestionAsked:
		if b.About.ForPerson() {
			c.ask(ctx, b)
		}
	case event.QuestionResolved:
		if cancel := c.asked[b.ID]; cancel != nil {
			cancel()
			delete(c.asked, b.ID)
		}
	}
}

// withdraw withdraws the questions that the client has not answered.
func (c *call) withdraw() {
	for _, cancel := range c.asked {
		cancel()
	}
}

// refuse notes a call that was refused because nobody could be asked.
func (c *call) refuse(it event.Item) {
	why := cmp.Or(it.Output, it.Text)
	if what := step(it); what != "" && what != why {
		why = what + ": " + why
	}
	if !c.elicits() {
		why += " (the MCP client does not support elicitation, with which gantry asks its user)"
	}
	c.note(why)
}

func (c *call) note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, plain(text, maxLine))
}

// step describes the beginning of an item; "": it is not worth a line.
func step(it event.Item) string {
	switch it.Type {
	case event.ItemCommand:
		return "$ " + it.Command
	case event.ItemFileChange:
		var paths []string
		for _, f := range it.Changes {
			paths = append(paths, f.Path)
		}
		return "change " + strings.Join(paths, ", ")
	case event.ItemUserMessage, event.ItemAgentMessage, event.ItemReasoning:
		return ""
	}
	if it.Text != "" {
		return it.Text
	}
	return it.Tool
}

// report reports progress. Nobody knows how many steps there will be.
func (c *call) report(ctx context.Context, text string) {
	if c.token == nil || text == "" {
		return
	}
	c.steps++
	err := c.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: c.token, Progress: float64(c.steps), Message: plain(text, maxLine)})
	if err != nil {
		c.server.log.Debug("progress not reported", "thread", c.thread.ID(), "err", err)
	}
}

// Bounds of texts for clients, in bytes.
const (
	maxLine = 1 << 10
	maxText = 8 << 10
)

// plain returns a text that displays as what it is: without characters that control a terminal or reorder what is around them, and of
// bounded length. The texts come from models, programs and plugins.
func plain(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError {
			return '\uFFFD'
		}
		return r
	}, text)
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:limit], len(text)-limit)
}
