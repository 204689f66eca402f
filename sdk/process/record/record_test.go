package record

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func text(o Output) string {
	if o.Omitted == 0 {
		return string(o.Head) + string(o.Tail)
	}
	return string(o.Head) + "|" + strings.Repeat(".", int(o.Omitted)) + "|" + string(o.Tail)
}

func read(t interface{ Fatal(...any) }, r *Record, s string) {
	for src := strings.NewReader(s); ; {
		if _, err := r.ReadPiece(src); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestHeadAndTail(t *testing.T) {
	tests := []struct {
		name     string
		capacity int
		pushes   []string
		want     string
	}{
		{"nothing", 10, nil, ""},
		{"only head", 10, []string{"012"}, "012"},
		{"all of it", 10, []string{"0123456789"}, "0123456789"},
		{"over the end", 10, []string{"0123456789", "ab"}, "01234|..|789ab"},
		{"in pieces", 10, []string{"01", "234", "567", "89", "a"}, "01234|.|6789a"},
		{"one piece longer than the tail", 10, []string{"0123456789", "ABCDEFGHIJK"}, "01234|...........|GHIJK"},
		{"no capacity", 0, []string{"abc"}, "|...|"},
		{"capacity for one", 1, []string{"abc"}, "|..|c"},
	}
	for _, tt := range tests {
		r, err := New(nil, tt.capacity)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range tt.pushes {
			read(t, r, p)
		}
		if got := text(r.Peek()); got != tt.want {
			t.Errorf("%s: peek %q, want %q", tt.name, got, tt.want)
		}
		if got := text(r.Take("c", nil)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if got := text(r.Take("d", nil)); got != "" {
			t.Errorf("%s: %q a second time", tt.name, got)
		}
	}
}

func TestTakeLeavesTheBeginningOfACharacter(t *testing.T) {
	r, err := New(nil, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	read(t, r, "ab\xe2\x82")
	if got := text(r.Take("1", func(end []byte) int { return 2 })); got != "ab" {
		t.Errorf("first = %q", got)
	}
	read(t, r, "\xac!")
	if got := text(r.Take("2", nil)); got != "€!" {
		t.Errorf("second = %q", got)
	}
	if r.Total() != 6 {
		t.Errorf("total = %d", r.Total())
	}
}

// killed is what the next process finds when this one is killed now, or, back, right before it put its last state in force.
func killed(mem []byte, back bool) []byte {
	b := slices.Clone(mem)
	if back {
		binary.NativeEndian.PutUint64(b[atCounter:], binary.NativeEndian.Uint64(b[atCounter:])-1)
	}
	return b
}

// cut is a source that ends the process in the moment when its bytes have arrived.
type cut struct {
	data  string
	after func()
}

func (c cut) Read(p []byte) (int, error) {
	n := copy(p, c.data)
	c.after()
	return n, nil
}

// TestKilledAtAnyMoment holds the promise: whatever was read and not seen by anybody is there again, once, in order.
func TestKilledAtAnyMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.SampledFrom([]int{0, 1, 7, 64, 100_000}).Draw(t, "capacity")
		mem := make([]byte, Size(capacity))
		r, err := New(mem, capacity)
		if err != nil {
			t.Fatal(err)
		}
		// All that nobody has seen: what was taken last, if it was not answered, and what came since.
		var taken, since []byte
		answeredLast := true
		check := func(where string, image []byte, want []byte) {
			next, err := Open(image, func(string) bool { return answeredLast })
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			o := next.Peek()
			kept := len(o.Head) + len(o.Tail)
			if int64(kept)+o.Omitted != int64(len(want)) || string(o.Head) != string(want[:len(o.Head)]) ||
				string(o.Tail) != string(want[len(want)-len(o.Tail):]) {
				t.Fatalf("%s: head %q, %d omitted, tail %q of %q", where, o.Head, o.Omitted, o.Tail, want)
			}
			if o.Omitted > 0 && kept != capacity {
				t.Fatalf("%s: %d bytes kept of %d, capacity %d", where, kept, len(want), capacity)
			}
			if next.Total() != r.Total() && where != "unnoted read" {
				t.Fatalf("%s: total %d, want %d", where, next.Total(), r.Total())
			}
		}
		unseen := func() []byte {
			if answeredLast {
				return since
			}
			return slices.Concat(taken, since)
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				piece := rapid.StringMatching(`[a-z]{0,90}`).Draw(t, "piece")
				if rapid.Bool().Draw(t, "long") {
					piece = strings.Repeat(piece, 500)
				}
				for len(piece) > 0 {
					var image []byte
					b, err := r.ReadPiece(cut{piece, func() { image = killed(mem, false) }})
					if err != nil {
						t.Fatal(err)
					}
					since, piece = append(since, b...), piece[len(b):]
					check("unnoted read", image, unseen())
					check("read, not in force", killed(mem, true), unseen())
					check("read", killed(mem, false), unseen())
				}
			case 2:
				before := unseen()
				o := r.Take("call", nil)
				if n := int64(len(o.Head)+len(o.Tail)) + o.Omitted; n != int64(len(since)) {
					t.Fatalf("%d bytes taken, want %d", n, len(since))
				}
				check("take, not in force", killed(mem, true), before)
				taken, since = since, nil
				answeredLast = rapid.Bool().Draw(t, "answered")
				check("take", killed(mem, false), unseen())
			case 3: // the next process goes on
				if r, err = Open(mem, func(string) bool { return answeredLast }); err != nil {
					t.Fatal(err)
				}
				if !answeredLast {
					since = slices.Concat(taken, since)
				}
				taken, answeredLast = nil, true
			}
		}
	})
}

func TestMark(t *testing.T) {
	mem := make([]byte, Size(64))
	r, err := New(mem, 64)
	if err != nil {
		t.Fatal(err)
	}
	r.SetMark(-7)
	read(t, r, "x")
	next, err := Open(mem, nil)
	if err != nil || next.Mark() != -7 {
		t.Errorf("mark %d, %v", next.Mark(), err)
	}
}

func TestForeignMemory(t *testing.T) {
	whole := make([]byte, Size(64))
	if _, err := New(whole, 64); err != nil {
		t.Fatal(err)
	}
	change := func(f func(b []byte)) []byte {
		b := slices.Clone(whole)
		f(b)
		return b
	}
	for name, mem := range map[string][]byte{
		"none":           nil,
		"short":          make([]byte, 16),
		"empty":          make([]byte, Size(64)),
		"cut off":        whole[:len(whole)-1],
		"huge":           change(func(b []byte) { b[atCapacity+7] = 0x7f }),
		"no state":       change(func(b []byte) { b[atCounter] = 0 }),
		"wild bank":      change(func(b []byte) { b[atStates+stateSize+3*8] = 3 }),
		"wild length":    change(func(b []byte) { b[atStates+stateSize+4*8+1] = 1 }),
		"negative total": change(func(b []byte) { b[atStates+stateSize+7] = 0x80 }),
	} {
		if _, err := Open(mem, nil); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(make([]byte, 16), 64); !errors.Is(err, ErrForeign) {
		t.Errorf("new in too little memory: %v", err)
	}
}

func TestClosedRecord(t *testing.T) {
	r, err := New(nil, 64)
	if err != nil {
		t.Fatal(err)
	}
	read(t, r, "x")
	r.Close()
	b, err := r.ReadPiece(strings.NewReader("later"))
	if string(b) != "later" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	r.SetMark(1)
	if o := r.Take("c", nil); text(o) != "" || text(r.Peek()) != "" {
		t.Errorf("taken after the end: %q", text(o))
	}
}

func TestReaderAndTakerTogether(t *testing.T) {
	r, err := New(nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() { read(t, r, strings.Repeat("abcdefgh", 50_000)) })
	var all strings.Builder
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }() // owned by the test
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		all.WriteString(text(r.Take("c", nil)))
	}
	if all.String() != strings.Repeat("abcdefgh", 50_000) {
		t.Error("the pieces are not the whole")
	}
}

func BenchmarkRead(b *testing.B) {
	r, err := New(nil, 1<<20)
	if err != nil {
		b.Fatal(err)
	}
	src := always{}
	b.SetBytes(landing)
	for b.Loop() {
		if _, err := r.ReadPiece(src); err != nil {
			b.Fatal(err)
		}
	}
}

type always struct{}

func (always) Read(p []byte) (int, error) { return len(p), nil }
