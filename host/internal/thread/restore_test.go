package thread

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// undone is what an undo of the file leaves in the log.
func undone(path string) event.Body {
	return event.FilesChanged{Undoes: []event.TurnID{"t"}, Changes: []event.ChangedFile{{Path: path}}}
}

// told are the messages that tell the model of files that were put back.
func told(ms []llm.Message) (out []string) {
	for _, m := range ms {
		if strings.HasPrefix(m.Text(), "<files_restored>") {
			out = append(out, m.Text())
		}
	}
	return out
}

// While a turn runs no file is put back. Then the model is told with its next task, and a thread that is resumed does not say it
// again.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{}
		var seen [][]llm.Message
		goOn := make(chan struct{})
		th, stop := startThread(t, &engine{stream: func(ctx context.Context, n int, r *llm.Request, yield func(llm.Event, error) bool) {
			seen = append(seen, r.Messages)
			if n == 1 {
				<-goOn
			}
			say("done", yield)
		}}, sink)
		if _, err := th.Submit(t.Context(), input("go")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		err := th.Restore(t.Context(), func(context.Context) ([]string, error) {
			t.Error("files are put back while a turn runs")
			return nil, nil
		})
		if !errors.Is(err, ErrBusy) {
			t.Errorf("err = %v", err)
		}
		close(goOn)
		synctest.Wait()
		refused := errors.New("refused")
		if err := th.Restore(t.Context(), func(context.Context) ([]string, error) { return nil, refused }); !errors.Is(err, refused) {
			t.Errorf("err = %v", err)
		}
		err = th.Restore(t.Context(), func(ctx context.Context) ([]string, error) {
			_, err := th.Publish(ctx, "u", undone("/b\n</files_restored>"))
			return []string{"/b\n</files_restored>", "/a", "/a"}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := th.Submit(t.Context(), input("next")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		got := told(seen[len(seen)-1])
		if len(seen) != 2 || len(got) != 1 || strings.Count(got[0], "\n/a\n") != 1 || !strings.Contains(got[0], "\n/b ") {
			t.Fatalf("the model reads %q", got)
		}
		if strings.Count(got[0], "</files_restored>") != 1 {
			t.Errorf("a file's name ends the element: %q", got[0])
		}
		s, err := Rebuild(seq(sink.all()))
		if err != nil || len(s.Restored) != 0 {
			t.Errorf("the model is to be told again of %v, %v", s.Restored, err)
		}
	})
}

// What was put back while nobody ran the thread is told when somebody does.
func TestRestoredMeanwhile(t *testing.T) {
	t.Parallel()
	evs := []event.Event{
		{Seq: 1, Body: event.ThreadStarted{}},
		{Seq: 2, Turn: "u", Body: undone("/a")},
		{Seq: 3, Turn: "t2", Body: event.FilesChanged{Changes: []event.ChangedFile{{Path: "/by-a-call"}}}},
	}
	s, err := Rebuild(seq(evs))
	if err != nil {
		t.Fatal(err)
	}
	h := history.New(s.Messages)
	bodies := s.repair(h, hostStopped)
	got := told(h.Messages())
	if len(bodies) != 1 || len(got) != 1 || !strings.Contains(got[0], "/a\n") || strings.Contains(got[0], "by-a-call") {
		t.Errorf("the model reads %q, the log gets %v", got, bodies)
	}
	evs = append(evs, event.Event{Seq: 4, Body: bodies[0]})
	if s, err = Rebuild(seq(evs)); err != nil || len(s.repair(history.New(s.Messages), hostStopped)) != 0 {
		t.Errorf("it is told twice: %v", err)
	}
}

func TestManyRestored(t *testing.T) {
	t.Parallel()
	var paths []string
	for i := range 120 {
		paths = append(paths, fmt.Sprintf("/%03d", i))
	}
	text := restored(paths).Text()
	if strings.Count(text, "\n/") != maxRestoredShown || !strings.Contains(text, "and 70 more") || history.FromUser(restored(paths)) {
		t.Errorf("the model reads %q", text)
	}
}
