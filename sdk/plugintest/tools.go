package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

const (
	// atOnce is the time limit for what the contract requires at once.
	atOnce = 2 * time.Second
	// settle is for how long a stream that must stay open is observed.
	settle = 200 * time.Millisecond
	// maxContextText is the maximum size of the context text of one key.
	maxContextText = 16384
)

// watch reads a long-lived stream.
type watch struct {
	cancel context.CancelFunc
	first  chan struct{} // closed with the first message
	ended  chan struct{} // closed with the end
	news   chan struct{} // receives a value if there are new messages
	err    error         // after ended
	mu     struct {
		sync.Mutex
		messages []any
	}
}

// follow reads a stream until it ends or close is called.
func follow[M any](ctx context.Context, open func(context.Context) (grpc.ServerStreamingClient[M], error)) (*watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := open(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watch{cancel: cancel, first: make(chan struct{}), ended: make(chan struct{}), news: make(chan struct{}, 1)}
	// Owner: the caller, who calls close.
	go func() {
		defer close(w.ended)
		for n := 0; ; n++ {
			m, err := stream.Recv()
			if err != nil {
				if w.err = err; errors.Is(err, io.EOF) {
					w.err = nil
				}
				return
			}
			w.mu.Lock()
			if n < maxEvents {
				w.mu.messages = append(w.mu.messages, m)
			}
			w.mu.Unlock()
			select {
			case w.news <- struct{}{}:
			default:
			}
			if n == 0 {
				close(w.first)
			}
		}
	}()
	return w, nil
}

func (w *watch) close() {
	w.cancel()
	<-w.ended
}

func (w *watch) messages() []any {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]any(nil), w.mu.messages...)
}

// over reports whether the stream ends within d.
func (w *watch) over(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.ended:
		return true
	case <-timer.C:
		return false
	}
}

func (w *watch) how() string {
	if w.err == nil {
		return "it ended normally"
	}
	s := status.Convert(w.err)
	return fmt.Sprintf("it ended with status %s: %s", codeName(s.Code()), s.Message())
}

// watching opens Watch on the shared process, unless it is open.
func (k *kit) watching(ctx context.Context) (*process, error) {
	p, err := k.ready(ctx)
	if err != nil || p.watch != nil {
		return p, err
	}
	p.watch, err = follow(context.WithoutCancel(ctx), func(ctx context.Context) (grpc.ServerStreamingClient[gantryv1.WatchResponse], error) {
		return p.tools().Watch(ctx, &gantryv1.WatchRequest{})
	})
	return p, err
}

func checkWatch(ctx context.Context, k *kit) verdict {
	const next = "send the tool set with a revision as soon as Watch is called, even if it is empty"
	p, err := k.watching(ctx)
	if err != nil {
		return broken(err)
	}
	select {
	case <-p.watch.first:
	case <-p.watch.ended:
		if len(p.watch.messages()) == 0 {
			return failed(next, "Watch sent nothing; %s", p.watch.how())
		}
	case <-time.After(atOnce + k.cfg.Slack):
		return failed(next, "no message within %v", atOnce)
	case <-ctx.Done():
		return skipped("", "interrupted")
	}
	set := convert.ToolSetFromProto(p.watch.messages()[0].(*gantryv1.WatchResponse))
	if set.Revision == "" {
		return failed(next, "the tool set has no revision")
	}
	k.tools, k.revision = set.Tools, set.Revision
	return passed("%d tools, revision %s", len(set.Tools), quote(set.Revision))
}

func checkWatchLasts(ctx context.Context, k *kit) verdict {
	p, err := k.watching(ctx)
	if err != nil {
		return broken(err)
	}
	if p.watch.over(settle) {
		return failed("keep Watch open, and send the tool set again when it changes", "%s", p.watch.how())
	}
	return passed("still open after %v", settle)
}

func checkToolSchemas(_ context.Context, k *kit) verdict {
	for where, tools := range map[string][]contract.Descriptor{"Watch": k.tools, "the manifest": k.manifest.Tools} {
		if err := contract.ValidateTools(tools); err != nil {
			return failed("correct the declaration of the tool", "in %s: %s", where, joined(err))
		}
	}
	return passed("%d tools", len(k.tools))
}

func checkThread(ctx context.Context, k *kit, p *process) verdict {
	const next = "keep Thread open until the host ends it, even if there is nothing to send"
	w, err := follow(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[gantryv1.ThreadResponse], error) {
		return p.tools().Thread(ctx, &gantryv1.ThreadRequest{ThreadId: "kit-thread-stream", Cwd: k.work, ThreadToken: "kit"})
	})
	if err != nil {
		return failed(next, "%v", k.explain(ctx, p, err))
	}
	defer w.close()
	if w.over(settle) {
		return failed(next, "%s", w.how())
	}
	for _, m := range w.messages() {
		c := m.(*gantryv1.ThreadResponse).GetContext()
		if n := len(c.GetText()); n > maxContextText {
			return failed("shorten the context text", "the context text of the key %s has %d bytes; the maximum is %d", quote(c.GetKey()), n, maxContextText)
		}
	}
	return passed("still open after %v, %d messages", settle, len(w.messages()))
}

func checkUnknownThread(ctx context.Context, k *kit, p *process) verdict {
	const next = "return OK for unknown IDs, which may have been released before"
	if _, err := call(ctx, k, p, p.tools().StopSession, &gantryv1.StopSessionRequest{ThreadId: "kit-unknown", SessionId: "kit-unknown"}); err != nil {
		return failed(next, "StopSession: %v", err)
	}
	for range 2 {
		if _, err := call(ctx, k, p, p.tools().EndThread, &gantryv1.EndThreadRequest{ThreadId: "kit-unknown"}); err != nil {
			return failed(next, "EndThread: %v", err)
		}
	}
	return passed("both return OK")
}
