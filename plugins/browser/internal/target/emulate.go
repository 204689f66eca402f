package target

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/chromedp/cdproto/browser"
	protocol "github.com/chromedp/cdproto/cdp"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
)

// Setting is a command that changes how a page sees its device, such as the size of the screen. The latest of a method holds.
type Setting struct {
	Method string `json:"method"`
	Params any    `json:"params"`
	// Top: the command is for the page, and holds for its frames.
	Top bool `json:"top,omitempty"`
}

// merge returns settings with others that replace those of the same method.
func merge(old, more []Setting) []Setting {
	out := slices.DeleteFunc(slices.Clone(old), func(s Setting) bool {
		return slices.ContainsFunc(more, func(x Setting) bool { return x.Method == s.Method })
	})
	return append(out, more...)
}

// Apply changes the settings of the tab, also for frames to come.
func (t *Tab) Apply(ctx context.Context, settings []Setting) error {
	t.all.mu.Lock()
	t.settings = merge(t.settings, settings)
	frames := slices.Clone(t.frames)
	t.all.mu.Unlock()
	for _, s := range settings {
		if err := t.Session.Call(ctx, s.Method, s.Params, &protocol.Empty{}); err != nil {
			return err
		}
	}
	for _, f := range frames {
		post(f.Session, settings)
	}
	return nil
}

// Apply changes the settings of all tabs, also of those to come.
func (b *Browser) Apply(ctx context.Context, settings []Setting) error {
	b.mu.Lock()
	b.settings = merge(b.settings, settings)
	b.mu.Unlock()
	for _, t := range b.Tabs() {
		if t.Info().Crashed {
			continue
		}
		if err := t.Apply(ctx, settings); err != nil {
			return err
		}
	}
	return nil
}

// post applies settings to a frame.
func post(s *cdp.Session, settings []Setting) {
	for _, x := range settings {
		if !x.Top {
			_ = s.Post(x.Method, x.Params)
		}
	}
}

// Grant lets pages use something that they would have to ask for, such as "geolocation".
func (b *Browser) Grant(ctx context.Context, permission string) error {
	if b.strange { // it would hold for all tabs of the user, too
		return fmt.Errorf("a browser that gantry did not start is granted no permission (%s)", permission)
	}
	_, err := protocol.Call(ctx, b.conn.Root(), browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: permission}, Setting: browser.PermissionSettingGranted,
		BrowserContextID: protocol.BrowserContextID(b.Context()),
	})
	return err
}

// AnswerDialogs determines how confirmations and prompts are answered from now on: "accept", "dismiss", or "ask", by [Tab.Answer].
func (b *Browser) AnswerDialogs(how string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dialogs = how
}

// Ping reports whether the browser answers, which does not depend on any page.
func (b *Browser) Ping(ctx context.Context) error {
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
	defer cancel()
	_, err := protocol.Call(ctx, b.conn.Root(), browser.GetVersion, protocol.Empty{})
	return err
}
