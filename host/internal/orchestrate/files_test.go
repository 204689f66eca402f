package orchestrate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// files records its calls in the bench, and reports that the call has changed a file.
type files struct {
	*bench
	err error
}

func (f files) Before(_ context.Context, call event.CallID, effects []contract.Effect, _ contract.Item) (*event.FilesKept, error) {
	f.step("look %s %v", call, effects)
	return &event.FilesKept{Call: call}, f.err
}

func (f files) After(_ context.Context, call event.CallID, item *event.Item) *event.FilesChanged {
	f.step("look again %s", call)
	item.Path = "told"
	return &event.FilesChanged{Call: call, Changes: []event.ChangedFile{{Path: "/a"}}}
}

func (f files) Diff(context.Context) *event.TurnDiff { return &event.TurnDiff{Diff: "d"} }

// The files that a call may change are backed up and committed before it runs, and compared after all of its processes have ended.
func TestFilesAreBackedUpBeforeTheCall(t *testing.T) {
	b := &bench{}
	b.files = files{bench: b}
	b.assess = func(contract.AssessRequest) (*contract.Assessment, error) {
		return &contract.Assessment{Effects: []contract.Effect{contract.WriteEffect{Paths: []string{"/a"}}}, Digest: "d"}, nil
	}
	b.run(t, assessed, `{}`)
	at := slices.Index(b.steps, "grant 1")
	want := []string{
		"grant 1", "look c1 [{[/a]}]", "call.decided", "call.started", "files.kept", "barrier", "call 1 d", "item.delta", "end-processes", "post-hook",
		"look again c1", "files.changed", "item.completed", "turn.diff", "call.ended",
	}
	if !slices.Equal(b.steps[at:], want) {
		t.Errorf("steps:\n%s\nwant:\n%s", strings.Join(b.steps[at:], "\n"), strings.Join(want, "\n"))
	}
	for _, body := range b.bodies {
		if done, ok := body.(event.ItemCompleted); ok && done.Item.Path != "told" {
			t.Error("the item was completed before it was told what is stored")
		}
	}
}

func TestFilesThatCantBeBackedUp(t *testing.T) {
	b := &bench{}
	b.files = files{b, errors.New("no space left")}
	a := b.run(t, assessed, `{}`)
	if a.Outcome != event.OutcomeError || !strings.Contains(text(a), "no space left") || !strings.Contains(text(a), "not started") {
		t.Errorf("%s: %q", a.Outcome, text(a))
	}
	if slices.Contains(b.steps, "call.started") || slices.Contains(b.steps, "call 1 d") || slices.Contains(b.steps, "look again c1") {
		t.Errorf("steps:\n%s", strings.Join(b.steps, "\n"))
	}
}

// Nothing is backed up for a read-only call; a second attempt uses the backup of the first.
func TestFilesAreBackedUpOnce(t *testing.T) {
	looks := func(b *bench) (n int) {
		for _, s := range b.steps {
			if strings.HasPrefix(s, "look c1") {
				n++
			}
		}
		return n
	}
	reads := &bench{assess: func(contract.AssessRequest) (*contract.Assessment, error) {
		return &contract.Assessment{ReadOnly: true}, nil
	}}
	reads.files = files{bench: reads}
	if reads.run(t, assessed, `{}`); looks(reads) != 0 {
		t.Errorf("steps:\n%s", strings.Join(reads.steps, "\n"))
	}
	again := &bench{answer: approval.Answer{Choice: approval.Approve}, retry: func(policy.Request, *contract.Result) (*contract.Escalation, bool) {
		return &contract.Escalation{}, false
	}}
	again.files = files{bench: again}
	again.call = func(s contract.CallStart) (*contract.Result, error) {
		return &contract.Result{SandboxDenied: s.Attempt == 1, Parts: []contract.Part{&contract.TextPart{Text: "x"}}}, nil
	}
	if again.run(t, assessed, `{}`); looks(again) != 1 || !slices.Contains(again.steps, "call 2 d") {
		t.Errorf("steps:\n%s", strings.Join(again.steps, "\n"))
	}
}

// Files of effects that become known while the call runs are backed up before they are granted.
func TestFilesOfLateEffects(t *testing.T) {
	f := &family{bench: &bench{answer: approval.Answer{Choice: approval.Approve}}}
	f.files = files{bench: f.bench}
	f.do = func(ctx context.Context, l *orchestrate.Live, _ contract.CallStart, ctl tool.Control) (*contract.Result, error) {
		var told sync.WaitGroup
		told.Go(func() { // that a person is asked, and is not any more
			<-ctl.Waits
			<-ctl.Waits
		})
		defer told.Wait()
		_, denial, err := l.Authorize(ctx, []contract.Effect{contract.WriteEffect{Paths: []string{"/late"}}}, "", nil)
		f.step("granted %q %v", denial, err)
		return contract.Text("ok"), nil
	}
	f.dispatch(t, t.Context())
	at := slices.Index(f.steps, "look c1 [{[/late]}]")
	if want := []string{"look c1 [{[/late]}]", "files.kept", "barrier", `granted "" <nil>`}; at < 0 || !slices.Equal(f.steps[at:at+4], want) {
		t.Errorf("steps:\n%s", strings.Join(f.steps, "\n"))
	}
	f.files = files{f.bench, fmt.Errorf("no space left")}
	f.do = func(ctx context.Context, l *orchestrate.Live, _ contract.CallStart, _ tool.Control) (*contract.Result, error) {
		t.Error("a call whose files can't be kept was started")
		return nil, nil
	}
	f.dispatch(t, t.Context())
}
