package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// View is a view of a session. Recv is called by one goroutine at a time; the other methods may be called concurrently.
type View struct {
	stream gantryv1.ToolService_ViewClient
	lease  *plugin.Lease
	cancel context.CancelFunc

	sending sync.Mutex
}

// View opens a view, which lasts until it is closed, the plugin's process ends, or ctx ends.
func (c *Client) View(ctx context.Context, o contract.ViewOpen) (*View, contract.ViewOpened, error) {
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return nil, contract.ViewOpened{}, fmt.Errorf("%w: %w", ErrUnreached, err)
	}
	lease.Detach() // a view must not keep the plugin from draining
	ctx, cancel := context.WithCancel(ctx)
	v := &View{lease: lease, cancel: cancel}
	if v.stream, err = gantryv1.NewToolServiceClient(lease.Conn).View(ctx); err == nil {
		err = v.Send(o)
	}
	if err == nil {
		var e contract.ViewEvent
		if e, err = v.Recv(); err == nil {
			if opened, ok := e.(contract.ViewOpened); ok {
				return v, opened, nil
			}
			err = fmt.Errorf("the plugin sent %T before it opened the view", e)
		}
	}
	cancel()
	return nil, contract.ViewOpened{}, refused(err, o)
}

// refused describes why a plugin did not open a view.
func refused(err error, o contract.ViewOpen) error {
	switch status.Code(err) {
	case codes.Unimplemented:
		return hint.New(fmt.Sprintf("the plugin of session %q does not show its sessions", o.SessionID),
			"update the plugin, or follow the output of the session in its item")
	case codes.NotFound:
		return hint.New(fmt.Sprintf("session %q has ended, or the plugin does not know it", o.SessionID), "open a view of a session that is running")
	case codes.FailedPrecondition:
		var kinds []string
		for _, k := range o.Kinds {
			kinds = append(kinds, k.String())
		}
		return hint.New(fmt.Sprintf("session %q can't be shown as %s", o.SessionID, strings.Join(kinds, " or ")), "request the other kind: terminal or screen")
	}
	return err
}

// viewSendTimeout is how long a plugin may take to read what a person does. After that the view is closed.
const viewSendTimeout = 10 * time.Second

// Send sends a message to the plugin. It blocks while the plugin does not read.
func (v *View) Send(r contract.ViewRequest) error {
	v.sending.Lock()
	defer v.sending.Unlock()
	defer time.AfterFunc(viewSendTimeout, v.cancel).Stop()
	if err := v.stream.Send(convert.ViewRequestToProto(r)); err != nil && !errors.Is(err, io.EOF) { // EOF: Recv returns the error
		return plugin.Classify(err, v.lease)
	}
	return nil
}

// Recv returns the next event. At the end of the view it returns [io.EOF].
func (v *View) Recv() (contract.ViewEvent, error) {
	for {
		m, err := v.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			return nil, plugin.Classify(err, v.lease)
		}
		if e, ok := convert.ViewEventFromProto(m); ok {
			return e, nil
		}
	}
}

// Close ends the view.
func (v *View) Close() { v.cancel() }
