package tui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// withPast is a desk that keeps what is typed in a folder.
func withPast(t *testing.T, home, config string) *desk {
	t.Helper()
	d := newDesk(t, 80, 20)
	d.f.answers[protocol.MethodConfigRead.Name] = config
	d.send(Events{client.Connected{Server: protocol.InitializeResponse{CodexHome: home}}})
	return d
}

// Messages are there in the next session, and so is what was not sent when the first ended without a word.
func TestPastSurvives(t *testing.T) {
	dir := t.TempDir()
	d := withPast(t, dir, "{}")
	d.typeText("fix tests")
	d.press("enter")
	d.typeText("write d")
	d.send(keep{}) // its moment has passed
	d.typeText("ocs")
	d.send(keep{})

	d = withPast(t, dir, "{}")
	d.shows("write docs", "this message was not sent")
	d.press("ctrl+c", "ctrl+r")
	d.shows("fix tests")
	d.press("esc", "up")
	d.press("up")
	if d.text() != "fix tests" {
		t.Errorf("the message before is %q", d.text())
	}
	d.press("enter")
	d.send(keep{})
	if d = withPast(t, dir, "{}"); d.text() != "" {
		t.Errorf("the draft is %q", d.text())
	}
	d.typeText("left here")
	if err := leave(d.m); err != nil {
		t.Fatal(err)
	}
	if d = withPast(t, dir, "{}"); d.text() != "left here" {
		t.Errorf("the draft is %q", d.text())
	}
}

func TestPastIsOff(t *testing.T) {
	d := withPast(t, t.TempDir(), `{"config":{"gantry":{"tui":{"history":false}}}}`)
	d.wants(protocol.MethodConfigRead.Name, `"cwd":"/home/u/project"`)
	d.typeText("go")
	d.press("enter")
	if d.m.past != nil {
		t.Error("messages are kept")
	}
}

// Messages that can't be kept are said once.
func TestPastIsBroken(t *testing.T) {
	home := t.TempDir()
	d := withPast(t, home, "{}")
	if err := os.WriteFile(filepath.Join(home, "tui"), nil, 0o600); err != nil { // where a folder would be
		t.Fatal(err)
	}
	for range 2 {
		d.typeText("go")
		d.press("enter")
	}
	d.send(keep{})
	if n := strings.Count(d.shown(), "messages are not kept for later sessions:"); n != 1 {
		t.Errorf("it is said %d times\n%s", n, d.shown())
	}
}

// Keys and colours are the user's choice, and what is wrong with them is said.
func TestKeysAndTheme(t *testing.T) {
	d := newDesk(t, 90, 24)
	d.f.answers[protocol.MethodConfigRead.Name] = `{"config":{"gantry":{"tui":{"theme":"mono","keys":{"pager":"f3","help":"f4","send":"ctrl+r"}}}}}`
	cmd := d.m.start() // its answer comes after that of the settings
	d.run(readSettings(d.m, ""))
	d.run(cmd)
	d.shows("tui.keys.send: Ctrl-R no longer does this: search earlier messages", "F4 shows keys")
	d.press("f3")
	d.shows("q closes")
	d.press("q", "?")
	if d.text() != "?" {
		t.Errorf("the message is %q", d.text())
	}
	d.press("ctrl+r")
	d.wants(protocol.MethodTurnStart.Name, `"text":"?"`)
	if strings.Contains(d.m.View().Content, "\x1b[90m") {
		t.Error("there are colours")
	}
}

// For a screen reader, every item is written once, with its role, and the rest of the screen is small and still.
func TestScreenReader(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.f.answers[protocol.MethodConfigRead.Name] = `{"config":{"gantry":{"tui":{"screen_reader":true}}}}`
	d.send(Events{client.Connected{}})
	if d.m.View().AltScreen {
		t.Error("it has the whole screen")
	}
	d.shows("Ready\nMessage:")
	d.replay("requestApproval")
	d.settle()
	d.shows("May this command run?")
	d.press("n")
	d.replay("")
	for _, s := range []string{"You: look and change", "Command: echo one; echo two\ndone\nOutput: one\ntwo", "Change of /home/u/project/hello.txt, done: ", "Agent: All `done`."} {
		if n := strings.Count(d.written, s); n != 1 {
			t.Errorf("%q is written %d times:\n%s", s, n, d.written)
		}
	}
	if strings.ContainsAny(d.written+d.shown(), "✓›─±∴•") {
		t.Errorf("there are marks:\n%s%s", d.written, d.shown())
	}
	d.typeText("/name")
	d.press("esc", "enter")
	d.shows("/name needs a name")
	for _, size := range [][2]int{{1, 1}, {5, 2}, {30, 4}} {
		d.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		d.send(tea.PasteMsg{Content: "several words\nand lines\n\nof text"})
		lines, x, y := d.m.screen()
		if len(lines) > size[1] || x >= size[0] || y >= size[1] {
			t.Errorf("%d lines and the cursor at %d,%d on %v", len(lines), x, y, size)
		}
	}
}
