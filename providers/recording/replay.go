package recording

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Check is how much of a request must be as recorded.
type Check string

// The checks. An empty one is CheckShape.
const (
	CheckShape Check = "shape" // the model, the order and kinds of messages, and what the user said last
	CheckExact Check = "exact" // every byte of the canonical request
	CheckOff   Check = "off"   // nothing
)

// Replay answers with what was recorded, thread by thread in the order of the recording. Any goroutine may use it.
type Replay struct {
	name    string
	check   Check
	threads [][]Entry

	mu struct {
		sync.Mutex
		at map[string]*cursor // per thread of this process
	}
}

type cursor struct{ thread, next int }

// NewReplay prepares a recording. The name stands in error texts.
func NewReplay(name string, entries []Entry, check Check) (*Replay, error) {
	switch check {
	case "":
		check = CheckShape
	case CheckShape, CheckExact, CheckOff:
	default:
		return nil, fmt.Errorf("a replay checks %q, %q or %q, not %q", CheckShape, CheckExact, CheckOff, check)
	}
	r := &Replay{name: name, check: check}
	numbers := map[string]int{}
	for _, e := range entries {
		i, ok := numbers[e.Thread]
		if !ok {
			i = len(r.threads)
			numbers[e.Thread] = i
			r.threads = append(r.threads, nil)
		}
		r.threads[i] = append(r.threads[i], e)
	}
	r.mu.at = map[string]*cursor{}
	return r, nil
}

// Next returns the recorded answer to the request. The error, always an [*llm.Error], shows how the request differs.
//
// A thread that is seen for the first time takes the first recorded thread that nobody has taken and that holds a
// request like this one, and begins there: that is request 1 normally, and a later one when the process is a new one for
// a thread that goes on.
func (r *Replay) Next(thread string, req *llm.Request) (Entry, error) {
	asked, err := Summarize(req)
	if err != nil {
		return Entry{}, &llm.Error{Code: llm.ErrInvalidRequest, Message: err.Error()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.mu.at[thread]
	if c == nil {
		c = r.beginLocked(asked)
	}
	if c == nil {
		return Entry{}, r.refuse("all %d recorded threads are taken, and here comes another", len(r.threads))
	}
	entries := r.threads[c.thread]
	if c.next >= len(entries) {
		return Entry{}, r.refuse("thread %d of the recording ends after %d requests, and here comes another", c.thread+1, len(entries))
	}
	e := entries[c.next]
	if why := r.differs(e.Asked, asked); why != "" {
		return Entry{}, r.refuse("request %d of thread %d is not as recorded\n%s", c.next+1, c.thread+1, why)
	}
	c.next++
	r.mu.at[thread] = c
	return e, nil
}

func (r *Replay) beginLocked(asked Summary) *cursor {
	var free []int
	for i := range r.threads {
		taken := false
		for _, c := range r.mu.at {
			taken = taken || c.thread == i
		}
		if !taken {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return nil
	}
	for _, i := range free {
		if n := slices.IndexFunc(r.threads[i], func(e Entry) bool { return e.Asked.Shape == asked.Shape && e.Asked.User == asked.User }); n >= 0 {
			return &cursor{thread: i, next: n}
		}
	}
	return &cursor{thread: free[0]}
}

func (r *Replay) differs(want, got Summary) string {
	var out []string
	line := func(key, want, got string) {
		if want != got {
			out = append(out, fmt.Sprintf("- %s: %s\n+ %s: %s", key, want, key, got))
		}
	}
	switch r.check {
	case CheckOff:
		return ""
	case CheckExact:
		if want.Digest == got.Digest {
			return ""
		}
	}
	line("model", want.Model, got.Model)
	line("user", want.User, got.User)
	line("shape", want.Shape, got.Shape)
	if r.check == CheckExact {
		line("tools", strings.Join(want.Tools, ", "), strings.Join(got.Tools, ", "))
		// Recorded texts are no patterns; a star in them matches itself, too.
		if d := script.Diff(want.Lines, got.Lines); d != "" {
			out = append(out, d)
		}
		if len(out) == 0 {
			out = append(out, "the texts are the same as far as they are recorded; tool descriptions, settings or longer texts differ")
		}
	} else if len(out) > 0 {
		if d := script.Diff(want.Lines, got.Lines); d != "" {
			out = append(out, d)
		}
	}
	return strings.Join(out, "\n")
}

func (r *Replay) refuse(format string, args ...any) *llm.Error {
	return &llm.Error{Code: llm.ErrInvalidRequest, Message: "recording " + r.name + ": " + fmt.Sprintf(format, args...),
		Next: "record again, or set replay_check to \"off\""}
}
