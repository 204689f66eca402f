//go:build unix

package tools_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// view is a view as the host sees it.
type view struct {
	r      *rig
	stream gantryv1.ToolService_ViewClient
	shown  string
	end    int64 // of the output
	state  contract.ViewState
	closed *contract.ViewClosed
}

func (r *rig) view(id int, kinds ...contract.ViewKind) *view {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	r.t.Cleanup(cancel)
	stream, err := r.tools.View(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	v := &view{r: r, stream: stream}
	v.send(contract.ViewOpen{ThreadID: "thread", SessionID: strconv.Itoa(id), Kinds: append(kinds, contract.ViewTerminal)[:max(1, len(kinds))]})
	return v
}

func (v *view) send(m contract.ViewRequest) {
	v.r.t.Helper()
	if err := v.stream.Send(convert.ViewRequestToProto(m)); err != nil && !errors.Is(err, io.EOF) {
		v.r.t.Fatal(err)
	}
}

func (v *view) types(s string) {
	v.r.t.Helper()
	v.send(contract.ViewInput{Act: contract.ViewBytes{Data: []byte(s)}})
}

func (v *view) opened() contract.ViewOpened {
	v.r.t.Helper()
	m, err := v.stream.Recv()
	if err != nil {
		v.r.t.Fatal(err)
	}
	e, _ := convert.ViewEventFromProto(m)
	o, ok := e.(contract.ViewOpened)
	if !ok {
		v.r.t.Fatalf("first: %+v", e)
	}
	return o
}

// until receives until ok, and acknowledges frames.
func (v *view) until(what string, ok func() bool) {
	v.r.t.Helper()
	for !ok() {
		m, err := v.stream.Recv()
		if err != nil {
			v.r.t.Fatalf("%s: %v; shown: %q", what, err, v.shown)
		}
		switch e, _ := convert.ViewEventFromProto(m); e := e.(type) {
		case contract.ViewFrame:
			if e.Output.Offset != v.end && v.shown != "" {
				v.r.t.Fatalf("output at %d after %d", e.Output.Offset, v.end)
			}
			v.shown += string(e.Output.Data)
			v.end = e.Output.Offset + int64(len(e.Output.Data))
			v.send(contract.ViewAck{Number: e.Number})
		case contract.ViewState:
			v.state = e
		case contract.ViewClosed:
			v.closed = &e
		}
	}
}

func (v *view) shows(s string) {
	v.r.t.Helper()
	v.until("output "+s, func() bool { return strings.Contains(v.shown, s) })
}

func TestViewOfATerminal(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, _ := r.open(object{"cmd": "echo before; while read line; do stty size; echo \"got $line\"; [ $line = quit ] && exit 3; done", "tty": true})
	v, other := r.view(id), r.view(id)
	want := contract.ViewSize{Width: 80, Height: 24}
	if o := v.opened(); o.Kind != contract.ViewTerminal || o.Size != want || o.ReadOnly || !strings.HasPrefix(o.Title, "echo before") {
		t.Errorf("opened %+v", o)
	}
	other.opened()
	v.shows("before\r\n")

	v.send(contract.ViewResize{Size: contract.ViewSize{Width: 132, Height: 43}})
	for _, x := range []*view{v, other} {
		x.until("the new size", func() bool { return x.state.Size.Width == 132 && x.state.Size.Height == 43 })
	}
	late := r.view(id)
	if o := late.opened(); o.Size != (contract.ViewSize{Width: 132, Height: 43}) {
		t.Errorf("size after a resize: %+v", o.Size)
	}
	v.types("by hand\n")
	for _, x := range []*view{v, other, late} {
		x.shows("43 132\r\ngot by hand\r\n")
	}
	a := r.call("write_stdin", object{"session_id": id, "chars": "by call\n"})
	if !strings.Contains(a.text(), "got by hand") || !strings.Contains(a.text(), "got by call") {
		t.Errorf("a call returns %q, want what the person saw as well", a.text())
	}
	v.shows("got by call\r\n")

	late.send(contract.ViewClose{})
	if _, err := late.stream.Recv(); err == nil {
		late.until("the end after close", func() bool { _, err = late.stream.Recv(); return err != nil })
	}
	v.types("quit\n")
	v.until("the end", func() bool { return v.closed != nil })
	if v.closed.Reason != "the program has exited with code 3" || !strings.HasSuffix(v.shown, "got quit\r\n") {
		t.Errorf("closed: %q after %q", v.closed.Reason, v.shown)
	}
}

func TestViewOfAPipe(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, _ := r.open(object{"cmd": "echo start; until [ -e go ]; do sleep 0.01; done; echo end"})
	v := r.view(id)
	if o := v.opened(); !o.ReadOnly {
		t.Errorf("opened %+v", o)
	}
	v.types("ignored\n")
	v.send(contract.ViewResize{})
	v.shows("start\n")
	touch(t, r.cwd, "go")
	v.until("the end", func() bool { return v.closed != nil })
	if v.shown != "start\nend\n" || v.closed.Reason != "the program has exited with code 0" {
		t.Errorf("%q, closed %q", v.shown, v.closed.Reason)
	}
}

func TestViewIsRefused(t *testing.T) {
	r := newRig(t, rigOptions{})
	id, _ := r.open(object{"cmd": "cat", "tty": true})
	for name, tt := range map[string]struct {
		view *view
		want codes.Code
	}{
		"unknown":  {r.view(5), codes.NotFound},
		"pictures": {r.view(id, contract.ViewScreen), codes.FailedPrecondition},
	} {
		if _, err := tt.view.stream.Recv(); status.Code(err) != tt.want {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}
