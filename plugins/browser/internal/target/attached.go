package target

import (
	"context"
	"errors"
	"slices"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
)

// Attached reports whether the browser is not ours; see [Options].
func (a *shared) Attached() bool { return a.strange }

// stranger reports whether a target of the whole browser belongs to its user: a tab that was not opened here, or a worker, which tabs of the
// user may share. The caller has locked a.mu.
func (a *shared) stranger(info target.Info) bool {
	return a.strange && !a.mu.claimed[info.TargetID] && (info.Type != "page" || a.tab(string(info.OpenerID)) == nil)
}

// release lets a target of the user run on its own. Chromium attaches to each new one before it is known whose it is.
func (a *shared) release(session string) {
	_ = a.conn.Session(session).Post(runtime.CommandRunIfWaitingForDebugger, protocol.Empty{})
	_ = a.conn.Root().Post(target.CommandDetachFromTarget, target.DetachFromTargetParams{SessionID: target.SessionID(session)})
}

// claim attaches to a tab that was opened here. When Chromium reported it, it was not known whose it is.
func (a *shared) claim(ctx context.Context, id target.ID) error {
	if !a.strange {
		return nil
	}
	a.mu.Lock()
	a.mu.claimed[id] = true
	a.mu.Unlock()
	_, err := protocol.Call(ctx, a.conn.Root(), target.AttachToTarget, target.AttachToTargetParams{TargetID: id, Flatten: new(true)})
	return err
}

// CloseTabs closes the tabs of a browser that is not ours: those that were opened here, in all parts.
func (a *shared) CloseTabs(ctx context.Context) error {
	if !a.strange || a.conn.Err() != nil {
		return nil
	}
	a.mu.Lock()
	tabs := slices.Clone(a.mu.tabs)
	a.mu.Unlock()
	var errs []error
	for _, t := range tabs {
		errs = append(errs, t.Close(ctx))
	}
	return errors.Join(errs...)
}
