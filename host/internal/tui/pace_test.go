package tui

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
)

// frameCounter is the output of a program. Each write is a frame.
type frameCounter struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (f *frameCounter) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all.Write(b)
}

func (f *frameCounter) take() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.all.Reset()
	return f.all.String()
}

// shown is a model that shows the last text that it was sent.
type shown struct{ text string }

func (*shown) Init() tea.Cmd    { return nil }
func (s *shown) View() tea.View { return tea.View{Content: s.text} }
func (s *shown) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if text, ok := msg.(string); ok {
		s.text = text
	}
	return s, nil
}

// An idle screen has no frames, and what follows a silence is drawn at once.
func TestIdleScreenHasNoFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		out := &frameCounter{}
		paced := newPacer(&shown{})
		program := tea.NewProgram(paced, tea.WithContext(ctx), tea.WithFPS(frames), tea.WithInput(nil), tea.WithOutput(out),
			tea.WithoutSignalHandler(), tea.WithWindowSize(40, 10), tea.WithEnvironment([]string{"TERM=xterm"}))
		paced.program = program
		done := make(chan struct{})
		go func() { // ends with ctx
			defer close(done)
			_, _ = program.Run()
		}()
		state := func() paceState {
			paced.mu.Lock()
			defer paced.mu.Unlock()
			return paced.state
		}
		drawn := func(text string, within time.Duration) {
			t.Helper()
			program.Send(text)
			<-time.After(within)
			synctest.Wait()
			if got := out.take(); !strings.Contains(got, text) {
				t.Errorf("after %s the screen got %q, without %q", within, got, text)
			}
		}
		drawn("first", 2*frame)
		for _, text := range []string{"ONE", "TWO"} {
			<-time.After(2 * silence)
			synctest.Wait()
			if state() != paceStopped {
				t.Fatal("the frames of an idle screen go on")
			}
			drawn(text, firstFrame)
			drawn("then "+strings.ToLower(text), frame+firstFor)
		}
		cancel()
		<-done
	})
}
