package script

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Player plays a script. It is immutable and safe for concurrent use, for any number of threads.
type Player struct {
	script *Script
	digest string
	steps  []*step
}

// step is a compiled [Step].
type step struct {
	Step
	index       int
	where       string
	when        []check
	expects     []expectation
	captures    []capture
	parts       []part
	times       int // -1: unlimited
	leavesTrace bool
	failure     *llm.Error // nil: none
	finish      llm.FinishReason
	message     template // of failure
}

type expectation struct {
	checks  []check
	message string
}

type capture struct {
	Capture
	re *regexp.Regexp
}

// part is a compiled [Part].
type part struct {
	Part
	text  template // text, reasoning, raw or freeform
	id    template
	call  template
	args  *jsonTemplate
	reply template // result of a hosted call
}

// Input is a request to the player.
type Input struct {
	Request      *llm.Request
	Thread, Turn string
	MaxAttempts  int      // attempts before a response; 0: 5
	Known        Position // the remembered position of the thread; zero: none
}

// DefaultMaxAttempts is the default number of attempts.
const DefaultMaxAttempts = 5

// Name returns the script's name.
func (p *Player) Name() string { return p.script.Name }

// Digest identifies the script in positions.
func (p *Player) Digest() string { return p.digest }

// Play returns the response to a request. The error, always an [*llm.Error], is the script's own: no step matches, an expectation
// does not hold, or a capture finds nothing. In that case the position is unchanged.
func (p *Player) Play(in Input) (*Answer, error) {
	pos := p.Locate(in.Request, in.Known)
	conv := look(in.Request)
	vars := p.scope(in, conv, pos)
	s, next, err := p.choose(conv, pos)
	if err != nil {
		return nil, err
	}
	for _, e := range s.expects {
		if failed := run(e.checks, conv); len(failed) > 0 {
			return nil, p.unexpected(s.where, next.Request, e.message, failed)
		}
	}
	captured, err := s.capture(conv)
	if err != nil {
		return nil, refusal("correct the pattern, or mark the capture optional", "script %s, %s: %v", p.Name(), s.where, err)
	}
	if len(captured) > 0 {
		if next.Vars == nil {
			next.Vars = map[string]string{}
		}
		maps.Copy(next.Vars, captured)
		maps.Copy(vars, captured)
	}
	a, err := p.answer(s, in, vars, next)
	if err != nil {
		return nil, refusal("correct the step; a variable that may be missing takes a fallback: ${name:-text}", "script %s, %s: %v", p.Name(), s.where, err)
	}
	return a, nil
}

// Peek returns the name of the step that would respond to the request, without checking its expectations.
func (p *Player) Peek(req *llm.Request) (string, error) {
	conv, pos := look(req), p.Locate(req, Position{})
	s, _, err := p.choose(conv, pos)
	if err != nil {
		return "", err
	}
	return s.label(), nil
}

// choose returns the first step that is not used up and whose condition holds, and the position after it.
func (p *Player) choose(conv *conversation, pos Position) (*step, Position, error) {
	next := pos.clone()
	next.Script, next.Request = p.digest, pos.Request+1
	i := slices.IndexFunc(p.steps, func(s *step) bool { return !s.usedUp(pos) && len(run(s.when, conv)) == 0 })
	if i < 0 {
		return nil, pos, p.lost(conv, pos)
	}
	s := p.steps[i]
	if s.times >= 0 {
		if next.Plays == nil {
			next.Plays = map[int]int{}
		}
		next.Plays[s.index]++
	}
	return s, next, nil
}

// scope returns the variables for templates and conditions.
func (p *Player) scope(in Input, conv *conversation, pos Position) map[string]string {
	vars := map[string]string{
		"user": conv.user, "output": conv.outputText(), "request": strconv.Itoa(pos.Request + 1), "model": in.Request.Model,
		"thread": in.Thread, "turn": in.Turn, "tools": strings.Join(conv.tools(), ", "),
	}
	maps.Copy(vars, pos.Vars)
	return vars
}

func (p *Player) unexpected(where string, request int, message string, failed []string) *llm.Error {
	if message != "" {
		message = " (" + message + ")"
	}
	return refusal("compare with what the script expects; the request log of the provider has the whole request",
		"script %s, %s: request %d is not as expected%s\n%s", p.Name(), where, request, message, strings.Join(failed, "\n"))
}

// lost explains why no step responds: it lists the remaining steps with their unmet conditions.
func (p *Player) lost(conv *conversation, pos Position) *llm.Error {
	var b strings.Builder
	fmt.Fprintf(&b, "script %s: no step answers request %d", p.Name(), pos.Request+1)
	const most = 8
	listed := 0
	for _, s := range p.steps {
		if s.usedUp(pos) {
			continue
		}
		if listed++; listed > most {
			continue
		}
		fmt.Fprintf(&b, "\n%s does not match:\n%s", s.where, indent(strings.Join(run(s.when, conv), "\n")))
	}
	switch {
	case listed == 0:
		fmt.Fprintf(&b, "; all %d steps are used up", len(p.steps))
	case listed > most:
		fmt.Fprintf(&b, "\nand %d more", listed-most)
	}
	fmt.Fprintf(&b, "\nthe conversation is: %s", Shape(conv.req))
	return refusal("add a step for it, or raise times", "%s", b.String())
}

func (s *step) usedUp(pos Position) bool { return s.times >= 0 && pos.Plays[s.index] >= s.times }

func (s *step) label() string {
	if s.Name != "" {
		return s.Name
	}
	return "step-" + strconv.Itoa(s.index+1)
}

// capture returns the variables that the step takes from the conversation.
func (s *step) capture(conv *conversation) (map[string]string, error) {
	if len(s.captures) == 0 {
		return nil, nil
	}
	vars := map[string]string{}
	for i, c := range s.captures {
		text, what := c.source(conv)
		match := c.re.FindStringSubmatchIndex(text)
		if match == nil {
			if c.Optional {
				continue
			}
			return vars, fmt.Errorf("capture %d: %s does not match %s: %s", i+1, quoteRE(c.Pattern), what, excerpt(text))
		}
		for g, name := range c.re.SubexpNames() {
			if name != "" && match[2*g] >= 0 {
				vars[name] = text[match[2*g]:match[2*g+1]]
			}
		}
	}
	return vars, nil
}

// gather is like capture for a replay, which takes what it finds.
func (s *step) gather(conv *conversation, vars map[string]string) map[string]string {
	found, _ := s.capture(conv) // what is missing was also missing when the step was played
	if len(found) == 0 {
		return vars
	}
	if vars = maps.Clone(vars); vars == nil {
		vars = map[string]string{}
	}
	maps.Copy(vars, found)
	return vars
}

func (c capture) source(conv *conversation) (text, what string) {
	if c.Call != "" {
		o, ok := conv.latest(c.Call)
		if !ok {
			return "", "the result of " + c.Call + ", which is not there"
		}
		return o, "the result of " + c.Call
	}
	if c.From == "conversation" {
		return conv.text(), "the conversation"
	}
	return conv.outputText(), "the tool results since the last answer"
}

func digestOf(s *Script) (string, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6]), nil
}
