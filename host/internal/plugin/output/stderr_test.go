package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// read runs a reader over text and returns it with the lines of its log, without times.
func read(text string, redact func(string) string) (*Stderr, []string) {
	var log bytes.Buffer
	s := NewStderr(hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log, DisableTime: true}), redact)
	s.Run(strings.NewReader(text))
	var lines []string
	for l := range strings.Lines(log.String()) {
		lines = append(lines, strings.TrimSuffix(l, "\n"))
	}
	return s, lines
}

func TestACrashReportIsOpenUntilTheEnd(t *testing.T) {
	s, log := read(strings.Join([]string{
		"before",
		"panic: boom",
		"",
		"goroutine 1 [running]:",
		`{"level":"info","msg":"another goroutine still logs"}`,
		"main.main()",
	}, "\n"), nil)
	want := []string{
		"[DEBUG] before", "[ERROR] panic: boom", "[ERROR] ", "[ERROR] goroutine 1 [running]:",
		"[INFO]  another goroutine still logs", "[ERROR] main.main()",
	}
	if !slices.Equal(log, want) {
		t.Errorf("log:\n got %q\nwant %q", log, want)
	}
	if got, want := s.Crash(), []string{"panic: boom", "", "goroutine 1 [running]:", "main.main()"}; !slices.Equal(got, want) {
		t.Errorf("report:\n got %q\nwant %q", got, want)
	}
	if got := s.Tail(2); !slices.Equal(got, []string{`{"level":"info","msg":"another goroutine still logs"}`, "main.main()"}) {
		t.Errorf("tail = %q", got)
	}
}

func TestWhatOpensACrashReport(t *testing.T) {
	for line, want := range map[string]bool{
		"panic: x": true, "fatal error: all goroutines are asleep - deadlock!": true, "SIGABRT: abort": true,
		"unexpected fault address 0x0": true, "don't panic: x": false, "panic": false, "[ERROR] panic: x": false,
		`{"level":"error","msg":"panic: x"}`: false, "recovered from a panic in /x: boom": false,
	} {
		if s, _ := read(line+"\n", nil); (s.Crash() != nil) != want {
			t.Errorf("%q opens one: %v", line, !want)
		}
	}
}

func TestLongLinesAreLoggedInPieces(t *testing.T) {
	long := `{"level":"error","msg":"` + strings.Repeat("x", 70<<10) + `"}`
	s, log := read(long+"\nshort\n", nil)
	if len(log) != 3 || log[2] != "[DEBUG] short" {
		t.Fatalf("%d lines of log", len(log))
	}
	if len(log[0]) != len("[DEBUG] ")+maxStderrLine || !strings.HasPrefix(log[1], "[DEBUG] xxx") {
		t.Errorf("pieces of %d and %d bytes", len(log[0]), len(log[1]))
	}
	if got := s.Tail(3); len(got[0]) > ringLineBytes+len("…") {
		t.Errorf("a line of %d bytes is kept", len(got[0]))
	}
}

func TestTheRingKeepsTheLastLines(t *testing.T) {
	var text strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	s, _ := read(text.String(), nil)
	all := s.Tail(1 << 20)
	size := 0
	for _, l := range all {
		size += len(l) + 1
	}
	if all[len(all)-1] != "line 99999" || size > ringBytes || size < ringBytes-100 {
		t.Errorf("%d bytes, last %q", size, all[len(all)-1])
	}
	if got := s.Tail(1); len(got) != 1 || got[0] != "line 99999" {
		t.Errorf("tail = %q", got)
	}
}

func TestACrashReportIsBounded(t *testing.T) {
	s, _ := read("panic: x\n"+strings.Repeat(strings.Repeat("y", 1000)+"\n", 1000), nil)
	size := 0
	for _, l := range s.Crash() {
		size += len(l) + 1
	}
	if size > crashBytes || s.Crash()[0] != "panic: x" {
		t.Errorf("%d bytes", size)
	}
}

func TestAFloodIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := read(strings.Repeat("x\n", burstLines+500), nil)
		if len(log) != burstLines+1 || !strings.Contains(log[burstLines], "stderr exceeds the logging limit: dropped_lines=500") {
			t.Errorf("%d lines, last %q", len(log), log[len(log)-1])
		}
		total, dropped := s.Lines()
		if total != burstLines+500 || dropped != 500 {
			t.Errorf("lines = %d, dropped = %d", total, dropped)
		}
		time.Sleep(time.Second) // in a bubble
		if !s.bucket.take(time.Now(), 10) {
			t.Error("nothing is logged after the flood")
		}
	})
}

func TestSecretsAreReplacedEverywhere(t *testing.T) {
	s, log := read("key hunter2\nlevel=info msg=hunter2 k=hunter2\npanic: hunter2\n", func(s string) string {
		return strings.ReplaceAll(s, "hunter2", "***")
	})
	all := strings.Join(slices.Concat(log, s.Tail(10), s.Crash()), "\n")
	if strings.Contains(all, "hunter2") || strings.Count(all, "***") < 6 {
		t.Errorf("kept:\n%s", all)
	}
}

func FuzzStderr(f *testing.F) {
	f.Add([]byte("panic: x\n{\"@message\":5}\n\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _ := read(string(b), nil)
		for _, l := range slices.Concat(s.Tail(1000), s.Crash()) {
			if len(l) > 6*ringLineBytes+3 {
				t.Errorf("a line of %d bytes", len(l))
			}
		}
	})
}
