package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
	"github.com/gantry-agent/gantry/plugins/browser/internal/secret"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// SecretBlock is the block of a secret.
type SecretBlock struct {
	Name    string             `label:"name"`
	Value   configblock.Secret `json:"value" required:"true" sensitive:"true" doc:"What is typed, or the key of the one-time codes that are."`
	Domains []string           `json:"domains" required:"true" doc:"Where it may be typed: hosts, which means https, such as \"example.com\" or \"*.example.com\", or origins such as \"http://localhost:8080\"."`
	Kind    string             `json:"kind" default:"password" enum:"password,totp" doc:"Whether the value is typed as it is, or is the key of time-based one-time codes."`
}

// secrets are those of the plugin's block.
type secrets struct {
	masks secret.Masks

	mu     sync.Mutex
	list   []configuredSecret
	loaded bool // all values are masked
}

type configuredSecret struct {
	secret.Secret
	block SecretBlock
}

func (s *secrets) configure(blocks []SecretBlock) error {
	var list []configuredSecret
	for i, b := range blocks {
		x, err := secret.New(b.Name, b.Kind, b.Domains)
		if err != nil {
			return configblock.Invalid(err.Error(), contract.Name("secret"), contract.Index(int64(i)))
		}
		list = append(list, configuredSecret{x, b})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.loaded = list, false
	return nil
}

func (s *secrets) all() []configuredSecret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

// load masks all values, since a page may show one before it is typed: it is kept from an earlier time, or another process has typed it.
func (s *secrets) load(ctx context.Context) {
	s.mu.Lock()
	list, loaded := s.list, s.loaded
	s.mu.Unlock()
	if loaded {
		return
	}
	complete := true
	for _, x := range list {
		v, err := x.block.Value.Value(ctx)
		if err != nil {
			complete = false // who uses it learns why
			continue
		}
		s.masks.Add(x.Name, v)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = complete
}

// misplaced returns an error if actions have secrets that they would not type.
func (s *secrets) misplaced(list []action.Named) error {
	for i, a := range list {
		names, typed := a.Secrets()
		for _, name := range names {
			if !typed && slices.ContainsFunc(s.all(), func(x configuredSecret) bool { return x.Name == name }) {
				return fmt.Errorf("action %d, %s, has the secret %q: secrets are only typed, by input and fill_form", i+1, a.Name, name)
			}
		}
	}
	return nil
}

// usable returns the placeholders of the secrets that may be typed on a site.
func (s *secrets) usable(origin string) []string {
	var out []string
	for _, x := range s.all() {
		if x.Allows(origin) {
			out = append(out, secret.Placeholder(x.Name))
		}
	}
	return out
}

// mask masks what a model and others see of a result.
func (s *secrets) mask(r *tool.Result) {
	if r == nil {
		return
	}
	for _, p := range r.Parts {
		switch p := p.(type) {
		case *contract.TextPart:
			p.Text = s.masks.Text(p.Text)
		case *contract.JSONPart:
			p.JSON = s.masks.Bytes(p.JSON)
		}
	}
	if len(r.Structured) > 0 {
		r.Structured = s.masks.Bytes(r.Structured)
	}
	if i, ok := r.Item.(*contract.BrowserItem); ok && i != nil {
		i.URL, i.Title = s.masks.Text(i.URL), s.masks.Text(i.Title)
	}
}

// secret returns what is typed for a secret; see [action.Session].
func (x *transfer) secret(ctx context.Context, name string, origins []string) (string, error) {
	all := x.p.secrets.all()
	i := slices.IndexFunc(all, func(s configuredSecret) bool { return s.Name == name })
	if i < 0 {
		return "", fmt.Errorf("there is no secret %q; for this page there are: %s", name, strings.Join(x.p.secrets.usable(origins[0]), ", "))
	}
	s := all[i]
	for n, o := range origins {
		if s.Allows(o) {
			continue
		}
		where := "the field belongs to"
		if n > 0 {
			where = "the field is in a frame of a page of"
		}
		return "", fmt.Errorf("the secret %q was not typed: %s %s, but its domains are %s", name, where, o, strings.Join(s.block.Domains, ", "))
	}
	if err := x.c.Authorize(ctx, contract.BrowserEffect{Origin: origins[0], Kind: "credential"}); err != nil {
		return "", err
	}
	value, err := s.block.Value.Value(ctx)
	if err != nil {
		return "", fmt.Errorf("the secret %q has no value: %w", name, err)
	}
	typed, err := s.Typed(value, time.Now())
	if err != nil {
		return "", err
	}
	x.p.secrets.masks.Add(name, value)
	x.p.secrets.masks.Add(name, typed)
	return typed, nil
}

// secrets tells the model which secrets it can have typed, once for each site that it comes to.
func (x *transfer) secrets(tab *target.Tab) []string {
	o := origin(tab.Info().URL)
	if o == x.r.told {
		return nil
	}
	x.r.told = o
	list := x.p.secrets.usable(o)
	if len(list) == 0 {
		return nil
	}
	return []string{"Secrets that can be typed here, as text of input or fill_form: " + strings.Join(list, ", ")}
}

// withheld returns why nobody may have a picture of what a tab shows; empty: it may be had.
func (p *browserPlugin) withheld(ctx context.Context, s *action.Session, tab *target.Tab) string {
	if len(p.secrets.all()) == 0 {
		return ""
	}
	shows, err := s.Shows(ctx, tab, p.secrets.masks.Has)
	switch {
	case err != nil:
		return "it is not known whether it shows a secret: " + err.Error()
	case shows:
		return "the page shows a secret."
	}
	return ""
}

// pictures drops screenshots in which a secret could be read, and says so.
func (p *browserPlugin) pictures(ctx context.Context, s *action.Session, tab *target.Tab, images []action.Image) (_ []action.Image, note []string) {
	if len(images) == 0 {
		return nil, nil
	}
	if why := p.withheld(ctx, s, tab); why != "" {
		return nil, []string{"The screenshot is withheld, because " + why}
	}
	return images, nil
}

// guarded calls a handler once it is known whose agent the thread's is, and masks secrets in what it returns. All tools have it.
func guarded[In any](p *browserPlugin, handler func(context.Context, *tool.Call, In) (*tool.Result, error)) func(context.Context, *tool.Call, In) (*tool.Result, error) {
	return func(ctx context.Context, c *tool.Call, in In) (*tool.Result, error) {
		p.secrets.load(ctx)
		if _, err := p.of(ctx, c.Thread()); err != nil {
			return nil, err
		}
		r, err := handler(ctx, c, in)
		p.secrets.mask(r)
		if err != nil {
			err = maskedError{err, p.secrets.masks.Text(err.Error())}
		}
		return r, err
	}
}

// maskedError is an error without the secrets in its text.
type maskedError struct {
	error
	text string
}

// Error implements error.
func (e maskedError) Error() string { return e.text }

// Unwrap returns the error as it was.
func (e maskedError) Unwrap() error { return e.error }

// maskedRequest returns a request whose texts have no secrets.
func (s *secrets) maskedRequest(r *llm.Request) *llm.Request {
	out := *r
	out.System, out.Messages = slices.Clone(r.System), slices.Clone(r.Messages)
	for i := range out.System {
		out.System[i] = s.masks.Text(out.System[i])
	}
	for i := range out.Messages {
		m := &out.Messages[i]
		m.Parts = slices.Clone(m.Parts)
		for j, p := range m.Parts {
			if t, ok := p.(*llm.Text); ok {
				masked := *t
				masked.Text = s.masks.Text(t.Text)
				m.Parts[j] = &masked
			}
		}
	}
	return &out
}

// maskElement masks what an element is recognized by.
func (s *secrets) maskElement(c *history.Candidate) {
	c.Name = s.masks.Text(c.Name)
	for k, v := range c.Attributes {
		c.Attributes[k] = s.masks.Text(v)
	}
}
