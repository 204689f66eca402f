package tui

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/vt"
	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the screens in testdata")

// fake is a server that answers what it was told to, and notes what it was asked.
type fake struct {
	answers map[string]string // by method; the default is {}
	calls   []string
	given   []string // answers to questions
}

func (f *fake) Call(_ context.Context, method string, params, result any) error {
	b, err := json.Marshal(params)
	if err != nil {
		return err
	}
	f.calls = append(f.calls, method+" "+string(b))
	a := f.answers[method]
	if a == "" {
		a = "{}"
	}
	if text, failed := strings.CutPrefix(a, "error: "); failed {
		return &rpc.Error{Code: -32600, Message: text, Data: map[string]string{"next": "do something else"}}
	}
	return json.Unmarshal([]byte(a), result)
}

func (f *fake) Answer(id string, result any) error {
	b, err := json.Marshal(result)
	f.given = append(f.given, id+" "+string(b))
	return err
}

func (f *fake) called(method string) (params string, ok bool) {
	for _, c := range f.calls {
		if rest, found := strings.CutPrefix(c, method+" "); found {
			params, ok = rest, true
		}
	}
	return params, ok
}

const startedThread = `{"thread":{"id":"t","cwd":"/home/u/project","status":{"type":"idle"}},"model":"default","modelProvider":"scripted","cwd":"/home/u/project",
	"approvalPolicy":"on-request","sandbox":{"type":"workspaceWrite","writableRoots":[]},"reasoningEffort":"medium"}`

// desk is a model with a fake server, on a screen.
type desk struct {
	t     testing.TB
	m     *Model
	f     *fake
	ended bool
	// written is what was written above the screen.
	written string
}

func newDesk(t testing.TB, width, height int) *desk {
	t.Helper()
	f := &fake{answers: map[string]string{protocol.MethodThreadStart.Name: startedThread}}
	d := &desk{t: t, f: f, m: NewModel(context.Background(), Config{Server: f, Dir: "/home/u/project", Version: "1"})}
	d.m.now = func() time.Time { return time.Unix(1795932970, 0) }
	d.m.later = func(time.Duration, tea.Msg) tea.Cmd { return nil } // tests send what comes with time
	d.send(tea.WindowSizeMsg{Width: width, Height: height})
	return d
}

// connected is a desk whose thread has started.
func connected(t testing.TB, width, height int) *desk {
	t.Helper()
	d := newDesk(t, width, height)
	d.send(Events{client.Connected{}})
	return d
}

// send sends a message, and the messages of the commands that follow from it, except for those that come with time.
func (d *desk) send(msg tea.Msg) {
	_, cmd := d.m.Update(msg)
	d.m.View()
	d.run(cmd)
}

func (d *desk) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			d.run(c)
		}
	case tea.QuitMsg:
		d.ended = true
	case applied:
		d.send(msg)
	default: // a sequence, or a text that is written above the screen
		v := reflect.ValueOf(msg)
		switch {
		case v.Kind() == reflect.Slice && v.Type().Elem() == reflect.TypeFor[tea.Cmd]():
			for i := range v.Len() {
				d.run(v.Index(i).Interface().(tea.Cmd))
			}
		case v.Kind() == reflect.Struct && v.NumField() == 1 && v.Type().Field(0).Name == "messageBody":
			d.written += v.Field(0).String() + "\n"
		}
	}
}

// settle lets the moment pass after which the keys of a question count.
func (d *desk) settle() { d.send(settled(d.m.quiet)) }

func (d *desk) notify(method string, params string) {
	d.send(Events{client.Notified{Notification: rpc.Notification{Method: method, Params: json.RawMessage(params)}}})
}

var named = map[string]tea.Key{
	"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
	"backspace": {Code: tea.KeyBackspace}, "pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift},
	"left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd}, "delete": {Code: tea.KeyDelete},
	"shift+up": {Code: tea.KeyUp, Mod: tea.ModShift}, "shift+down": {Code: tea.KeyDown, Mod: tea.ModShift}, "ctrl+home": {Code: tea.KeyHome, Mod: tea.ModCtrl},
	"ctrl+end": {Code: tea.KeyEnd, Mod: tea.ModCtrl}, "shift+enter": {Code: tea.KeyEnter, Mod: tea.ModShift}, "alt+enter": {Code: tea.KeyEnter, Mod: tea.ModAlt},
	"space": {Code: tea.KeySpace, Text: " "}, "f1": {Code: tea.KeyF1}, "f3": {Code: tea.KeyF3}, "f2": {Code: tea.KeyF2}, "alt+left": {Code: tea.KeyLeft, Mod: tea.ModAlt}, "alt+right": {Code: tea.KeyRight, Mod: tea.ModAlt},
	"ctrl+left": {Code: tea.KeyLeft, Mod: tea.ModCtrl}, "ctrl+right": {Code: tea.KeyRight, Mod: tea.ModCtrl}, "alt+backspace": {Code: tea.KeyBackspace, Mod: tea.ModAlt},
}

func keyOf(name string) tea.KeyPressMsg {
	if k, ok := named[name]; ok {
		return tea.KeyPressMsg(k)
	}
	for prefix, mod := range map[string]tea.KeyMod{"ctrl+": tea.ModCtrl, "alt+": tea.ModAlt} {
		if c, ok := strings.CutPrefix(name, prefix); ok {
			return tea.KeyPressMsg{Code: []rune(c)[0], Mod: mod}
		}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

func (d *desk) press(names ...string) {
	for _, n := range names {
		d.send(keyOf(n))
	}
}

func (d *desk) typeText(text string) {
	for _, c := range text {
		d.press(string(c))
	}
}

// shown returns what an emulated terminal shows.
func (d *desk) shown() string {
	v := d.m.View()
	emu := vt.NewEmulator(d.m.width, d.m.height)
	defer func() { _ = emu.Close() }()
	_, _ = emu.WriteString(strings.ReplaceAll(v.Content, "\n", "\r\n"))
	lines := strings.Split(emu.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func (d *desk) shows(texts ...string) {
	d.t.Helper()
	for _, s := range texts {
		if got := d.shown(); !strings.Contains(got, s) {
			d.t.Errorf("the screen does not show %q:\n%s", s, got)
		}
	}
}

// golden compares the screen with the file of this name.
func (d *desk) golden(name string) {
	d.t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := d.shown()
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			d.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	if got != string(want) {
		d.t.Errorf("the screen differs from %s, which -update writes:\n%s", path, got)
	}
}

// replay plays a recorded transcript up to a line that contains a text; empty: all of it.
func (d *desk) replay(until string) {
	d.t.Helper()
	b, err := os.ReadFile("../client/testdata/patch-and-approval.jsonl")
	if err != nil {
		d.t.Fatal(err)
	}
	for line := range strings.Lines(strings.ReplaceAll(string(b), "00000000-0000-7000-8000-000000000001", "t")) {
		var l struct {
			ID, Method string
			Params     json.RawMessage
			Seq        uint64
			Part       int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			d.t.Fatal(err)
		}
		if l.ID != "" {
			q, err := client.ParseQuestion(l.ID, l.Method, l.Params)
			if err != nil {
				d.t.Fatal(err)
			}
			d.send(Events{client.Asked{Question: q}})
		} else {
			d.send(Events{client.Notified{Notification: rpc.Notification{Method: l.Method, Params: l.Params, Seq: l.Seq, Part: l.Part}}})
		}
		if until != "" && strings.Contains(line, until) {
			return
		}
	}
}

func TestScreens(t *testing.T) {
	for _, size := range [][2]int{{80, 30}, {40, 16}, {200, 40}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			d := newDesk(t, size[0], size[1])
			name := func(s string) string { return fmt.Sprintf("%s-%d", s, size[0]) }
			d.golden(name("starting"))
			d.send(Events{client.Connected{}})
			d.golden(name("ready"))
			d.replay("requestApproval")
			d.settle()
			d.golden(name("question"))
			d.press("n")
			if len(d.f.given) != 1 || !strings.Contains(d.f.given[0], `{"decision":"decline"}`) {
				t.Errorf("answers: %q", d.f.given)
			}
			d.replay("")
			d.golden(name("done"))
			d.press("?")
			d.golden(name("help"))
		})
	}
}

// The screen is full, and nothing is outside, whatever is pressed, pasted and received.
func TestRandomKeys(t *testing.T) {
	var all []string
	for _, b := range NewModel(t.Context(), Config{}).table {
		all = append(all, b.Keys...)
	}
	rapid.Check(t, func(rt *rapid.T) {
		d := newDesk(t, rapid.IntRange(1, 60).Draw(rt, "width"), rapid.IntRange(1, 30).Draw(rt, "height"))
		d.f.answers[protocol.MethodFuzzyFileSearch.Name] = `{"files":[{"path":"a.go","match_type":"file"},{"path":"dir","match_type":"directory"}]}`
		d.f.answers[protocol.MethodThreadList.Name] = `{"data":[{"id":"o","preview":"other","cwd":"/x","status":{"type":"idle"}}]}`
		d.f.answers[protocol.MethodThreadResume.Name] = startedThread
		for range rapid.IntRange(0, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				d.send(tea.WindowSizeMsg{Width: rapid.IntRange(0, 60).Draw(rt, "width"), Height: rapid.IntRange(0, 30).Draw(rt, "height")})
			case 1:
				d.send(tea.PasteMsg{Content: rapid.StringN(0, 1500, -1).Draw(rt, "paste")})
			case 2:
				d.send(Events{client.Connected{}})
			case 3:
				if d.m.thread != nil {
					d.replay(rapid.SampledFrom([]string{"turn/started", "c1", "requestApproval", ""}).Draw(rt, "until"))
				}
			case 4:
				d.settle()
			case 5:
				d.typeText(rapid.SampledFrom([]string{"/", "/model", "@a", "!ls", "\\", "/resume", "/undo"}).Draw(rt, "text"))
			case 6:
				d.send(Events{client.Disconnected{}})
			case 7:
				d.press("enter")
			default:
				d.press(rapid.SampledFrom(all).Draw(rt, "key"))
			}
			if d.m.width <= 0 || d.m.height <= 0 {
				continue
			}
			lines, x, y := d.m.screen()
			if len(lines) != d.m.height || y >= d.m.height || x < 0 || x >= d.m.width {
				rt.Fatalf("%d lines on a screen of %d, the cursor is at %d,%d", len(lines), d.m.height, x, y)
			}
			for _, l := range lines {
				if l.Width() > d.m.width {
					rt.Fatalf("%q is wider than %d", l.Plain(), d.m.width)
				}
			}
		}
	})
}

// The name of each key of the table is the one that the terminal library gives it.
func TestKeyNames(t *testing.T) {
	for _, b := range NewModel(t.Context(), Config{}).table {
		for _, k := range b.Keys {
			if got := keyOf(k).Keystroke(); got != k && keyOf(k).Text != k {
				t.Errorf("%s is called %s", k, got)
			}
		}
	}
	if reflect.DeepEqual(keyOf("ctrl+a"), keyOf("alt+a")) {
		t.Error("keys are not told apart")
	}
}
