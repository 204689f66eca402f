package threads

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// exported is a thread of some events as `threads export` writes it.
func exported(t *testing.T) []byte {
	t.Helper()
	s, id := storetest.Open(t), event.NewThreadID()
	fillStore(t, s, id)
	var b bytes.Buffer
	if err := export(t.Context(), s, id, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestExportAndImport(t *testing.T) {
	file := exported(t)
	s := storetest.Open(t)
	info, err := s.Import(t.Context(), iotest.OneByteReader(newImporter(iotest.OneByteReader(bytes.NewReader(file)), false)))
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := s.Export(t.Context(), info.ID, &again); err != nil {
		t.Fatal(err)
	}
	events, last, ok := bytes.Cut(file, again.Bytes())
	if !ok || len(events) > 0 || bytes.Count(last, []byte("\n")) != 1 || !bytes.Contains(last, fmt.Appendf(nil, `"events":%d}`, info.Seq)) {
		t.Errorf("the export is\n%s\nthe stored events are\n%s", file, again.Bytes())
	}
}

// Wherever an export is cut off, nothing of it is imported, and the line is named.
func TestCutOffExport(t *testing.T) {
	file := exported(t)
	whole := len(bytes.TrimRight(file, "\n"))
	s := storetest.Open(t)
	lines := 0
	for at := 1; at < whole; at++ {
		edge := file[at-1] == '\n' || file[at] == '\n'
		if file[at-1] == '\n' {
			lines++
		}
		if !edge && at%97 != 0 {
			continue
		}
		line := lines + 1
		if file[at-1] == '\n' {
			line = lines // the last one that is there
		}
		_, err := s.Import(t.Context(), newImporter(bytes.NewReader(file[:at]), false))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("line %d", line)) || !strings.Contains(err.Error(), "truncated") {
			t.Fatalf("cut off after %d bytes: %v, want an error that names line %d", at, err, line)
		}
	}
	if n := countThreads(t, s); n != 0 {
		t.Errorf("%d threads were stored", n)
	}
}

func TestPartialImport(t *testing.T) {
	file := exported(t)
	lines := bytes.SplitAfter(bytes.TrimRight(file, "\n"), []byte("\n"))
	events := len(lines) - 1
	for _, tc := range []struct {
		name  string
		text  []byte
		want  int
		isCut bool
	}{
		{"whole", file, events, false},
		{"without the last line", bytes.Join(lines[:events], nil), events, false},
		{"fewer events", bytes.Join(lines[:events-1], nil), events - 1, false},
		{"in the middle of an event", bytes.Join(lines[:events], nil)[:len(bytes.Join(lines[:events], nil))-10], events - 1, true},
	} {
		s := storetest.Open(t)
		in := newImporter(bytes.NewReader(tc.text), true)
		info, err := s.Import(t.Context(), in)
		if err != nil || info.Seq != uint64(tc.want) || in.cut != tc.isCut {
			t.Errorf("%s: %d events, cut %v, %v; want %d, %v", tc.name, info.Seq, in.cut, err, tc.want, tc.isCut)
		}
	}
}

func TestWrongExport(t *testing.T) {
	file := string(exported(t))
	lines := strings.SplitAfter(strings.TrimRight(file, "\n"), "\n")
	last := lines[len(lines)-1] + "\n"
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", "it contains no events"},
		{"empty lines", "\n\n", "it contains no events"},
		{"the last line alone", last, "line 1: the export should have"},
		{"text", "hello\nworld\n" + last, "line 1: "},
		{"two exports", file + file, fmt.Sprintf("line %d: data after the end", len(lines)+1)},
		{"events are missing at the end", strings.Join(lines[:len(lines)-2], "") + last, fmt.Sprintf("line %d: the export should have", len(lines)-1)},
		{"an event is missing", lines[0] + strings.Join(lines[2:], "") + "\n", "found event 3 instead of event 2"},
		{"an empty line does not count", lines[0] + "\n\n" + "{\n" + last, "line 4: "},
	} {
		for _, partial := range []bool{false, true} {
			s := storetest.Open(t)
			_, err := s.Import(t.Context(), newImporter(strings.NewReader(tc.text), partial))
			if err == nil || !strings.Contains(err.Error(), tc.want) || countThreads(t, s) != 0 {
				t.Errorf("%s, partial %v: %v, %d threads; want an error with %q and none", tc.name, partial, err, countThreads(t, s), tc.want)
			}
		}
	}
}

// What is passed on is what came, whatever the size of the pieces; nothing panics.
func FuzzImporter(f *testing.F) {
	f.Add([]byte("{\"seq\":1}\n\n{\"kind\":\"export.ended\",\"body\":{\"events\":1}}\n"), true)
	f.Add([]byte("{\"kind\":\"export.ended\""), false)
	f.Add([]byte("\n\r\n{}"), true)
	f.Fuzz(func(t *testing.T, text []byte, partial bool) {
		var whole, pieces bytes.Buffer
		_, err := whole.ReadFrom(newImporter(bytes.NewReader(text), partial))
		_, again := pieces.ReadFrom(iotest.OneByteReader(newImporter(iotest.HalfReader(bytes.NewReader(text)), partial)))
		if !bytes.Equal(whole.Bytes(), pieces.Bytes()) || (err == nil) != (again == nil) {
			t.Errorf("%q, %v and in pieces %q, %v", whole.Bytes(), err, pieces.Bytes(), again)
		}
		if whole.Len() > len(text)+1 {
			t.Errorf("%d bytes became %d", len(text), whole.Len())
		}
	})
}

func fillStore(t *testing.T, s *store.Store, ids ...event.ThreadID) {
	t.Helper()
	for _, id := range ids {
		story := storetest.Story(id, 1)
		if err := s.Append(t.Context(), story...); err != nil {
			t.Fatal(err)
		}
		if err := s.Barrier(t.Context(), id, story[len(story)-1].Seq); err != nil {
			t.Fatal(err)
		}
	}
}

func countThreads(t *testing.T, s *store.Store) int {
	t.Helper()
	infos, err := s.Threads(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return len(infos)
}
