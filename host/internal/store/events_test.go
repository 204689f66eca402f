package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

func TestEventsStopEarly(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	story := storetest.Story("t", 60)
	mustAppend(t, s, story...)
	for _, n := range []int{1, 255, 256, 257} {
		count := 0
		for range s.Events(t.Context(), "t", 0) {
			if count++; count == n {
				break
			}
		}
		if count != n {
			t.Errorf("%d events, want %d", count, n)
		}
	}
	mustAppend(t, s, event.Event{Seq: uint64(len(story)) + 1, Thread: "t", Body: event.ThreadNamed{}}) // nothing is held open
	mustBarrier(t, s, []event.Event{{Thread: "t", Seq: uint64(len(story)) + 1}})
}

func TestLargeEventsComeInSmallPages(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	big := strings.Repeat("x", 3<<20)
	for seq := range uint64(5) {
		mustAppend(t, s, event.Event{Seq: seq + 1, Thread: "t", Body: event.Notice{Text: big}})
	}
	got := stored(t, s, "t", 0)
	if len(got) != 5 || got[4].Body.(event.Notice).Text != big {
		t.Errorf("%d events", len(got))
	}
}

func TestEventsOfALaterVersion(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	mustAppend(t, s,
		event.Event{Seq: 1, Thread: "t", Body: event.ThreadNamed{Name: "n"}},
		event.Event{Seq: 2, Thread: "t", Body: event.Unknown{Name: "quantum.entangled", Data: []byte(`{"spin":"up"}`)}},
		event.Event{Seq: 3, Thread: "t", Body: event.ThreadNamed{Name: "m"}})
	mustBarrier(t, s, []event.Event{{Thread: "t", Seq: 3}})
	if _, err := storetest.SQL(t, cfg).Exec(`UPDATE events SET sum = -1, body = '{"name":{"first":"N"}}' WHERE seq = 1`); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for e, err := range s.Events(t.Context(), "t", 0) {
		kinds = append(kinds, fmt.Sprintf("%T", e.Body))
		if d, ok := errors.AsType[*store.DecodeError](err); (e.Seq == 1) != ok || ok && (d.Seq != 1 || d.Kind != "thread.named") {
			t.Errorf("event %d: %v", e.Seq, err)
		}
	}
	if got := strings.Join(kinds, " "); got != "event.Unknown event.Unknown event.ThreadNamed" {
		t.Errorf("bodies: %s", got)
	}
	var out bytes.Buffer
	if err := s.Export(t.Context(), "t", &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"name":{"first":"N"}}`, `"kind":"quantum.entangled","body":{"spin":"up"}`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the export lacks %s:\n%s", want, out.String())
		}
	}
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	from := storetest.Config(t)
	s := openAt(t, from)
	story := storetest.Story(event.NewThreadID(), 60) // more than a page
	thread := story[0].Thread
	mustAppend(t, s, story...)
	var file bytes.Buffer
	if err := s.Export(t.Context(), thread, &file); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(file.String(), "\n"); n != len(story) {
		t.Errorf("%d lines, want %d", n, len(story))
	}
	to := storetest.Config(t)
	other := openAt(t, to)
	info, err := other.Import(t.Context(), iotest.OneByteReader(bytes.NewReader(file.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	if info.ID != thread || info.Turns != 60 || info.Seq != uint64(len(story)) {
		t.Errorf("imported %+v", info)
	}
	if got := stored(t, other, thread, 0); !reflect.DeepEqual(got, story) {
		t.Errorf("%d events came back, not the %d that were exported", len(got), len(story))
	}
	if have, want := derived(t, storetest.SQL(t, to), thread), derived(t, storetest.SQL(t, from), thread); !reflect.DeepEqual(have, want) {
		t.Errorf("derived rows differ:\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	if _, err := other.Import(t.Context(), bytes.NewReader(file.Bytes())); !errors.As(err, new(*store.ExistsError)) {
		t.Errorf("importing again: %v", err)
	}
	// It goes on, and can be deleted and imported again.
	mustAppend(t, other, event.Event{Seq: info.Seq + 1, Thread: thread, Body: event.ThreadNamed{Name: "n"}})
	mustBarrier(t, other, []event.Event{{Thread: thread, Seq: info.Seq + 1}})
	if _, err := other.Delete(t.Context(), thread); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Import(t.Context(), bytes.NewReader(file.Bytes())); err != nil {
		t.Error(err)
	}
	if err := s.Export(t.Context(), "nothing", &file); !errors.As(err, new(*store.NotFoundError)) {
		t.Errorf("exporting what is not there: %v", err)
	}
	if err := s.Export(t.Context(), thread, failingWriter{}); !errors.Is(err, errPipe) {
		t.Errorf("exporting into a broken pipe: %v", err)
	}
}

var errPipe = errors.New("broken pipe")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errPipe }

func TestImportIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	line := func(seq int, thread, kind, body string) string {
		return fmt.Sprintf(`{"seq":%d,"thread":%q,"time":"2026-07-01T12:00:00Z","kind":%q,"body":%s}`+"\n", seq, thread, kind, body)
	}
	named := func(seq int, thread string) string { return line(seq, thread, "thread.named", `{"name":"n"}`) }
	for what, test := range map[string]struct{ text, want string }{
		"nothing":          {"", "no events"},
		"blank lines":      {"\n\n", "no events"},
		"not JSON":         {named(1, "t") + "hello\n", "line 2"},
		"cut short":        {named(1, "t") + named(2, "t")[:40], "line 2"},
		"a gap":            {named(1, "t") + named(3, "t"), "found event 3 instead of event 2"},
		"a wrong start":    {named(2, "t"), "found event 2 instead of event 1"},
		"two threads":      {named(1, "t") + named(2, "u"), "one thread at a time"},
		"no thread":        {named(1, ""), "no thread"},
		"a path":           {named(1, "../../etc/passwd"), "not an id"},
		"a wrong body":     {line(1, "t", "thread.named", `[1]`), "line 1"},
		"a broken source":  {"", "source is gone"},
		"a numberless one": {line(0, "t", "thread.named", `{}`), "no sequence number"},
	} {
		r := strings.NewReader(test.text)
		var err error
		if what == "a broken source" {
			_, err = s.Import(t.Context(), iotest.ErrReader(errors.New("source is gone")))
		} else {
			_, err = s.Import(t.Context(), r)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error with %q", what, err, test.want)
		}
	}
	if list, err := s.Threads(t.Context(), store.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("%d threads are there, %v", len(list), err)
	}
	// What a live stream recorded has transient events and blank lines.
	text := named(1, "t") + "\n" + line(0, "t", "item.delta", `{"item":"i","text":"x"}`) + named(2, "t")
	if info, err := s.Import(t.Context(), strings.NewReader(text)); err != nil || info.Seq != 2 {
		t.Errorf("a recorded stream: %+v, %v", info, err)
	}
}
