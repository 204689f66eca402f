// Package parity_test holds what gantry asks a model, request by request and item by item, to the layout that codex 0.169 has,
// and to ours where ours is another on purpose.
//
// It owns: the scenarios, the notation of a request, and what has to be true of every request beside its layout. It must not
// know: how gantry comes to its requests, how OpenAI's service checks them (e2e/vendors).
//
// Start with [notation] and [TestOneTurn]. A scenario is a script of answers, the steps of a user, and the layouts that
// follow from them.
package parity_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// atTokens is where the scenarios' threads are compacted, full is an answer that is beyond it.
const (
	atTokens = 4000
	full     = 5000
)

// scenario is a user with one thread on OpenAI's service.
type scenario struct {
	*rig.Rig
	t       *testing.T
	service *vendors.Server
	thread  string
	forked  string // the thread that the last fork began as
	last    []rig.Event
	// rewritten are the requests that do not go on where the one before ended, though no account came between; why.
	rewritten map[int]string
}

// start begins a scenario whose service answers by a script.
func start(t *testing.T, script ...answer) *scenario {
	t.Helper()
	s := &scenario{Rig: rig.New(t, ""), t: t, service: vendors.Start(t, "openai-responses", play(script)...), rewritten: map[int]string{}}
	s.Env = append(s.Env, "VENDOR_KEY="+vendors.Key)
	s.Config(fmt.Sprintf(`
provider "openai" {
  source   = "builtin/openai"
  base_url = "%s/v1"
  api_key  = env("VENDOR_KEY")

  model "small-model" {
    context_window = 3000
    efforts        = ["medium"]
  }
}

model "small" {
  provider = "openai"
  name     = "small-model"
}

model "first" {
  provider = "openai"
  name     = "gpt-5.4"
}

model "second" {
  provider     = "openai"
  name         = "gpt-5.4-mini"
  instructions = "You are the second."
  hosted_tools = ["web_search"]
}

history {
  compact_at_tokens = %d
  compact_prompt    = %q
}
`, s.service.URL, atTokens, accountQuestion))
	return s
}

// task is the command that gives the thread a task; the first one starts it.
func (s *scenario) task(text string, flags ...string) []string {
	args := append([]string{"resume", "--events"}, flags...)
	if s.thread == "" {
		return append([]string{"exec", "--events", "--model", "first"}, append(flags, text)...)
	}
	return append(args, s.thread, text)
}

// turn lets the user say something, and waits until it is done.
func (s *scenario) turn(text string, flags ...string) {
	s.t.Helper()
	s.ended(s.Start(s.task(text, flags...)...), "completed", "")
}

// fails is a turn that ends with an error.
func (s *scenario) fails(text, want string) {
	s.t.Helper()
	s.ended(s.Start(s.task(text)...), "failed", want)
}

// begin starts a turn and returns when its process runs.
func (s *scenario) begin(text string) *rig.Run {
	s.t.Helper()
	run := s.Start(s.task(text)...)
	run.Sees(`"turn.started"`)
	s.thread = rig.Events(s.t, run.Stdout())[0].Thread
	return run
}

// ended waits for the end of a turn, and holds it to how it should end; want is part of the error.
func (s *scenario) ended(run *rig.Run, status, want string) {
	s.t.Helper()
	res := run.Wait()
	s.last = rig.Events(s.t, res.Stdout)
	if len(s.last) == 0 {
		s.t.Fatalf("gantry printed no event; exit %d\n%s", res.Code, res.Stderr)
	}
	s.thread = s.last[0].Thread
	end := s.end()
	if end.Status != status || !strings.Contains(end.Error.Message, want) {
		s.t.Fatalf("the turn ended %q with %q, want %q with %q\n%s", end.Status, end.Error.Message, status, want, res.Stderr)
	}
}

// end is the event that ended the last turn.
type end struct {
	Status      string
	LastMessage string
	Error       struct{ Message string }
	Usage       struct{ Input, Output, Total int }
	TurnUsage   struct{ Input, Output, Total int }
}

func (s *scenario) end() end {
	s.t.Helper()
	ends := events[end](s, "turn.ended") // after a kill there is the end of the turn before, too
	if len(ends) == 0 {
		s.t.Fatal("no turn ended")
	}
	return ends[len(ends)-1]
}

// compact lets the user compact the thread.
func (s *scenario) compact() {
	s.t.Helper()
	s.ended(s.Start("compact", "--events", s.thread), "completed", "")
}

// gate is a command that runs until the test opens the gate.
func gate(name string) said {
	return command(fmt.Sprintf("touch '%s.reached'; while [ ! -e '%[1]s' ]; do sleep 0.02; done; echo through %[1]s", name))
}

func (s *scenario) reached(name string) {
	s.t.Helper()
	s.Until("the command at "+name+" runs", func() bool { return s.has(name + ".reached") })
}

func (s *scenario) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.Dir, name))
	return err == nil
}

// request is what the service was asked.
type request struct {
	Model        string            `json:"model"`
	Instructions string            `json:"instructions"`
	Input        []json.RawMessage `json:"input"`
	Tools        json.RawMessage   `json:"tools"`
	ToolChoice   any               `json:"tool_choice"`
	Parallel     *bool             `json:"parallel_tool_calls"`
	Store        *bool             `json:"store"`
	Stream       bool              `json:"stream"`
	Include      []string          `json:"include"`
	CacheKey     string            `json:"prompt_cache_key"`
	Text         struct {
		Format struct {
			Type   string
			Schema json.RawMessage
		}
	} `json:"text"`
}

func (s *scenario) requests() []request {
	s.t.Helper()
	var out []request
	for _, r := range s.service.Requests() {
		var q request
		if err := json.Unmarshal(r.Raw, &q); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, q)
	}
	return out
}

// output is the output of call number n of a request.
func (q request) output(n int) string {
	for _, raw := range q.Input {
		if it := itemOf(raw); it.Type == "function_call_output" {
			if n--; n == 0 {
				return strings.Join(textsOf(it.Output), "")
			}
		}
	}
	return ""
}

// sees holds the requests to their layouts, and to what is true of all requests.
func (s *scenario) sees(layouts ...string) {
	s.t.Helper()
	got := s.layouts()
	if !slices.Equal(got, layouts) {
		s.t.Errorf("the model saw:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(layouts, "\n\t"))
		return
	}
	s.sound(got)
}

func (s *scenario) layouts() []string {
	s.t.Helper()
	var n notation
	var out []string
	for _, q := range s.requests() {
		out = append(out, n.layout(q.Input))
	}
	return out
}

// sound holds the requests to what is true of all of them: their form, and that each begins with the bytes of the one before.
func (s *scenario) sound(got []string) {
	s.t.Helper()
	all := s.requests()
	for i, q := range all {
		if err := q.wellFormed(got[i]); err != nil {
			s.t.Errorf("request %d: %v", i+1, err)
		}
		// What a model was asked before is what its vendor has cached. Another one gets its own of each item.
		before := i - 1
		for before >= 0 && all[before].Model != q.Model {
			before--
		}
		if before < 0 {
			continue
		}
		grew := all[before].begins(q, got[before])
		why, may := s.rewritten[i+1]
		if accounts(got[i]) != accounts(got[before]) {
			why, may = "an account came between", true
		}
		if grew == may {
			s.t.Errorf("request %d begins with request %d: %v %s\n%s\nbefore:\n%s", i+1, before+1, grew, why, q.Input, all[before].Input)
		}
		if q.CacheKey != all[0].CacheKey && s.forked == "" {
			s.t.Errorf("request %d has the cache key %q, the first one %q", i+1, q.CacheKey, all[0].CacheKey)
		}
	}
}

// accounts are the accounts that a layout holds.
func accounts(layout string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(layout), func(w string) bool { return w[0] != 'S' }), " ")
}

// begins tells that the next request has the bytes of this one at its beginning; a question for an account at its end was
// asked beside the conversation.
func (q request) begins(next request, layout string) bool {
	was := q.Input
	if asksForAccount(layout) {
		was = was[:len(was)-1]
	}
	if next.Instructions != q.Instructions || len(next.Input) < len(was) {
		return false
	}
	for i := range was {
		if string(was[i]) != string(next.Input[i]) {
			return false
		}
	}
	return true
}

// wellFormed is what is true of every request. One for a summary has the tools of the others, so that it is read from the vendor's cache; codex's has none.
func (q request) wellFormed(layout string) error {
	repeated := asksForAccount(layout) && q.ToolChoice == "none" // after an answer without a summary
	switch offered := len(q.Tools) > 0; {
	case q.Instructions == "" || q.CacheKey == "":
		return fmt.Errorf("instructions %q, cache key %q", q.Instructions, q.CacheKey)
	case q.Store == nil || *q.Store || !q.Stream || !slices.Contains(q.Include, "reasoning.encrypted_content"):
		return fmt.Errorf("store %v, stream %v, include %q", q.Store, q.Stream, q.Include)
	case !offered || q.Parallel == nil || !*q.Parallel || q.ToolChoice != "auto" && !repeated:
		return fmt.Errorf("tools %s, parallel %v, choice %v", q.Tools, q.Parallel, q.ToolChoice)
	}
	for i, raw := range q.Input {
		it := itemOf(raw)
		served := it.Type == "reasoning" || it.Type == "function_call" || it.Role == "assistant"
		if it.ID != "" && !served {
			return fmt.Errorf("item %d has an id that the service did not give: %s", i+1, raw)
		}
	}
	return nil
}

func asksForAccount(layout string) bool { return strings.HasSuffix(layout, "P") }

// events are the bodies of the last turn's events of a kind.
func events[T any](s *scenario, kind string) []T {
	s.t.Helper()
	var out []T
	for _, e := range s.last {
		if e.Kind == kind {
			var v T
			e.Into(s.t, &v)
			out = append(out, v)
		}
	}
	return out
}

// Remove removes a file of the project.
func (s *scenario) Remove(name string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.Dir, name)); err != nil {
		s.t.Fatal(err)
	}
}
