package script

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Compile validates a script and prepares it for playing: patterns compile, names exist, and each ${variable} can be set by a
// capture. The script must not be modified afterwards.
func Compile(s *Script) (*Player, error) {
	digest, err := digestOf(s)
	if err != nil {
		return nil, err
	}
	if len(s.Steps) == 0 {
		return nil, fmt.Errorf("there is no step; write at least one [[step]]")
	}
	p := &Player{script: s, digest: digest}
	names := map[string]string{}
	for i := range s.Steps {
		name := s.Steps[i].Name
		if name != "" && names[name] != "" {
			return nil, fmt.Errorf("%s has the name of %s", where(i, name), names[name])
		}
		names[name] = where(i, "")
		c, err := compileStep(&s.Steps[i], i, where(i, name), s.Defaults)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where(i, name), err)
		}
		p.steps = append(p.steps, c)
	}
	return p, p.checkVariables()
}

func compileStep(s *Step, index int, where string, d Defaults) (*step, error) {
	c := &step{Step: *s, index: index, where: where, times: 1}
	if d.Times != nil {
		c.times = *d.Times
	}
	if s.Times != nil {
		c.times = *s.Times
	}
	if c.times < -1 || c.times == 0 {
		return nil, fmt.Errorf("times is a number from 1, or -1 for without end, not %d", c.times)
	}
	var err error
	if c.when, err = s.When.compile(); err != nil {
		return nil, fmt.Errorf("when: %w", err)
	}
	for i := range s.Expect {
		checks, err := s.Expect[i].compile()
		if err != nil {
			return nil, fmt.Errorf("expect %d: %w", i+1, err)
		}
		c.expects = append(c.expects, expectation{checks: checks, message: s.Expect[i].Message})
	}
	for i, cap := range s.Capture {
		compiled, err := compileCapture(cap)
		if err != nil {
			return nil, fmt.Errorf("capture %d: %w", i+1, err)
		}
		c.captures = append(c.captures, compiled)
	}
	calls := false
	for i := range s.Do {
		compiled, err := compilePart(&s.Do[i])
		if err != nil {
			return nil, fmt.Errorf("do %d: %w", i+1, err)
		}
		calls = calls || s.Do[i].Call != "" && s.Do[i].Result == nil
		c.leavesTrace = c.leavesTrace || s.Do[i].Call != "" || s.Do[i].Text != nil || s.Do[i].Reasoning != nil
		c.parts = append(c.parts, compiled)
	}
	c.finish = llm.FinishStop
	if calls {
		c.finish = llm.FinishToolCalls
	}
	if s.Finish != "" {
		if err := c.finish.UnmarshalText([]byte(s.Finish)); err != nil {
			return nil, fmt.Errorf("finish: %w; reasons are stop, length, tool-calls, content-filter, error, unknown", err)
		}
	}
	if err := c.compileFailure(); err != nil {
		return nil, err
	}
	if err := c.checkBreak(); err != nil {
		return nil, err
	}
	return c, c.checkMalformed()
}

func compileCapture(c Capture) (capture, error) {
	out := capture{Capture: c}
	if !slices.Contains([]string{"", "output", "conversation"}, c.From) {
		return out, fmt.Errorf("from is output or conversation, not %q", c.From)
	}
	if c.Call != "" && c.From == "conversation" {
		return out, fmt.Errorf("call goes with from = \"output\" only")
	}
	var err error
	if out.re, err = regexp.Compile(c.Pattern); err != nil {
		return out, err
	}
	named := false
	for _, n := range out.re.SubexpNames() {
		if n == "" {
			continue
		}
		if isBuiltin(n) {
			return out, fmt.Errorf("group %q has the name of a built-in variable", n)
		}
		named = true
	}
	if !named {
		return out, fmt.Errorf("%s has no named group; write (?P<name>…)", quoteRE(c.Pattern))
	}
	return out, nil
}

func compilePart(p *Part) (part, error) {
	c := part{Part: *p}
	kinds := 0
	for _, set := range []bool{p.Text != nil, p.Reasoning != nil, p.Call != ""} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return c, fmt.Errorf("exactly one of text, reasoning and call")
	case p.Call == "" && (len(p.Args) > 0 || p.Raw != nil || p.Freeform != nil || p.Result != nil || p.Namespace != ""):
		return c, fmt.Errorf("args, raw, freeform, result and namespace need a call")
	}
	var err error
	text := func(dst *template, s *string) {
		if s != nil && err == nil {
			*dst, err = parseTemplate(*s)
		}
	}
	text(&c.text, p.Text)
	text(&c.text, p.Reasoning)
	text(&c.id, &p.ID)
	text(&c.call, &p.Call)
	text(&c.reply, p.Result)
	if p.Call != "" {
		inputs := 0
		for _, set := range []bool{len(p.Args) > 0, p.Raw != nil, p.Freeform != nil} {
			if set {
				inputs++
			}
		}
		if inputs > 1 {
			return c, fmt.Errorf("one of args, raw and freeform")
		}
		text(&c.text, p.Raw)
		text(&c.text, p.Freeform)
		if len(p.Args) > 0 && err == nil {
			args, argsErr := parseJSONTemplate(p.Args)
			if argsErr != nil {
				return c, fmt.Errorf("args: %w", argsErr)
			}
			c.args = &args
		}
	}
	return c, err
}

func (s *step) compileFailure() error {
	f := s.Error
	if f == nil {
		return s.checkAttempts()
	}
	code, err := errorCode(f.Code)
	if err != nil {
		return fmt.Errorf("error: %w", err)
	}
	e := failureOf(code)
	if f.Message != "" {
		if s.message, err = parseTemplate(f.Message); err != nil {
			return fmt.Errorf("error: message: %w", err)
		}
	}
	if f.Retryable != nil {
		e.Retryable = *f.Retryable
	}
	if f.Status != 0 {
		e.Status = f.Status
	}
	e.RetryAfter, e.RequestID, e.Next = f.RetryAfter.Duration(), f.RequestID, f.Next
	s.failure = e
	return s.checkAttempts()
}

func (s *step) checkAttempts() error {
	if a := s.Attempts; a != nil && a.Failures < 0 {
		return fmt.Errorf("attempts: failures is a number from 0, not %d", a.Failures)
	}
	return nil
}

func (s *step) checkBreak() error {
	b := s.Break
	if b == nil {
		return nil
	}
	switch {
	case b.How != "" && !slices.Contains(breakNames, b.How):
		return fmt.Errorf("break: unknown way %q; ways are %s", b.How, strings.Join(breakNames, ", "))
	case b.AfterBytes != nil && *b.AfterBytes < 0:
		return fmt.Errorf("break: a count is at least 0")
	}
	return nil
}

// checkVariables rejects a ${name} that can never be set.
func (p *Player) checkVariables() error {
	known := map[string]bool{}
	for _, n := range builtins {
		known[n] = true
	}
	for _, s := range p.steps {
		for _, c := range s.captures {
			for _, n := range c.re.SubexpNames() {
				known[n] = true
			}
		}
	}
	for _, s := range p.steps {
		var unknown []string
		use := func(name string) {
			if !known[name] && !slices.Contains(unknown, name) {
				unknown = append(unknown, name)
			}
		}
		s.message.names(use)
		for _, c := range s.parts {
			c.text.names(use)
			c.id.names(use)
			c.call.names(use)
			c.reply.names(use)
			if c.args != nil {
				c.args.names(use)
			}
		}
		if len(unknown) == 0 {
			continue
		}
		names := sortedKeys(known)
		hint := ""
		if near := configblock.Nearest(unknown[0], names); near != "" {
			hint = fmt.Sprintf("; did you mean ${%s}?", near)
		}
		return fmt.Errorf("%s: no capture sets ${%s}%s (write $${ for a plain ${)", s.where, unknown[0], hint)
	}
	return nil
}
