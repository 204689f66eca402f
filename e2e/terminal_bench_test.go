package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// BenchmarkTerminalStart measures from the start of gantry until the composer is painted, and until the thread is ready.
func BenchmarkTerminalStart(b *testing.B) {
	r := rig.New(b, task)
	var painted, ready []time.Duration
	for b.Loop() {
		start := time.Now()
		s := r.Screen(100, 40)
		s.Shows("What shall be done?")
		painted = append(painted, time.Since(start))
		s.Shows("never/danger-full-access")
		ready = append(ready, time.Since(start))
		s.Type("\x04")
		s.Ends()
	}
	percentiles(b, painted, "painted")
	percentiles(b, ready, "ready")
}

// BenchmarkTerminalKey measures from a key to the screen: of an empty thread, and beside a model that streams.
func BenchmarkTerminalKey(b *testing.B) {
	b.Run("empty", func(b *testing.B) { benchKeys(b, rig.New(b, task).Screen(100, 40)) })
	b.Run("streaming", func(b *testing.B) {
		r := rig.New(b, fmt.Sprintf("[[step]]\nchunk = 12\nchunk_delay_ms = 1\ndo = [{ text = %q }]\n", strings.Repeat("Some *text* of a paragraph, which is streamed.\n\n", 4000)))
		s := r.Screen(100, 40)
		s.Shows("never/danger-full-access")
		s.Type("go\r")
		s.Shows("which is streamed", "working")
		benchKeys(b, s)
	})
}

func benchKeys(b *testing.B, s *rig.Screen) {
	s.Shows("never/danger-full-access")
	var took []time.Duration
	text := ""
	for b.Loop() {
		for i := range 40 {
			text += string(rune('a' + i%26))
			start := time.Now()
			s.Type(text[len(text)-1:])
			s.Shows("› " + text)
			took = append(took, time.Since(start))
		}
		s.Type("\x15")
		text = ""
		s.Until("the message is empty", func(screen string) bool { return !strings.Contains(screen, "› a") })
	}
	percentiles(b, took, "key")
}
