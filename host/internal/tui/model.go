package tui

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/tui/composer"
	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/overlay"
	"github.com/gantry-agent/gantry/host/internal/tui/pager"
	"github.com/gantry-agent/gantry/host/internal/tui/past"
	"github.com/gantry-agent/gantry/host/internal/tui/picker"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/transcript"
)

// Server is the app server, as far as the interface needs it. [client.Conn] implements it.
type Server interface {
	Call(ctx context.Context, method string, params, result any) error
	Answer(id string, result any) error
}

// Config configures an interface.
type Config struct {
	Server  Server
	Dir     string // in which threads start
	Version string
	Editor  func(path string) tea.ExecCommand // edits a file; nil: there is none
}

// Model is the state of the interface.
type Model struct {
	ctx context.Context
	cfg Config
	now func() time.Time
	// later sends a message after a while.
	later func(time.Duration, tea.Msg) tea.Cmd

	width, height int
	colors        term.Palette
	blurred       bool // the window does not have the focus
	mouse         bool

	thread   *client.Thread
	starting bool           // a thread is being started or opened
	early    []client.Event // of that time: a part may be the thread's that is opened
	lost     string
	loading  bool // earlier turns are being read
	began    time.Time
	ticking  bool
	unsent   []string // messages that wait for the thread

	view     *transcript.View
	composer composer.Composer
	table    []keys.Binding
	question *overlay.Overlay
	quiet    int          // counts keys, so that a question waits until none was pressed for a moment
	pager    *pager.Pager // below a question
	picker   *picker.Picker
	chosen   func(m *Model, r picker.Row) tea.Cmd
	roster   roster
	speech   speech
	suggest  suggestions
	models   []protocol.Model
	past     *past.Past // nil: off, or not read yet
	kept     string     // the draft on disk
	keeping  bool       // it is about to change

	warnings []client.Notice // from before there was a thread
	fatal    error           // why there never was a thread
	hint     string          // what the last key would do if pressed again
	again    keys.Action     // of that key
}

// NewModel returns an interface that has no size yet.
func NewModel(ctx context.Context, cfg Config) *Model {
	later := func(d time.Duration, msg tea.Msg) tea.Cmd {
		return tea.Tick(d, func(time.Time) tea.Msg { return msg })
	}
	return &Model{ctx: ctx, cfg: cfg, now: time.Now, later: later, view: transcript.New(), table: keys.Table(), colors: term.Terminal(), mouse: true, starting: true}
}

// Messages.
type (
	// Events are what happened on the connection, in order.
	Events []client.Event
	// Ended says that the connection has been given up.
	Ended struct{ Err error }
	// applied changes the model with the result of a call.
	applied func(m *Model) tea.Cmd
	// settled says that a moment has passed since key number n.
	settled int
	tick    struct{}
	// keep says that the draft has had its moment.
	keep struct{}
)

// call calls a method, and then changes the model with the result.
func call[R any](m *Model, method string, params any, then func(m *Model, r R, err error) tea.Cmd) tea.Cmd {
	ctx, server := m.ctx, m.cfg.Server
	return func() tea.Msg {
		var r R
		err := server.Call(ctx, method, params, &r)
		return applied(func(m *Model) tea.Cmd { return then(m, r, err) })
	}
}

// do calls a method whose result is not needed, and says what went wrong.
func (m *Model) do(method string, params any) tea.Cmd {
	return call(m, method, params, func(m *Model, _ struct{}, err error) tea.Cmd {
		m.fail(err)
		return nil
	})
}

// fail shows an error.
func (m *Model) fail(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	n := client.Notice{Level: client.Error, Text: err.Error()}
	if e, ok := errors.AsType[*rpc.Error](err); ok {
		n.Text = e.Message
		n.Next = nextStep(e)
	}
	m.note(n)
}

// note shows a notice, also if there is no thread.
func (m *Model) note(n client.Notice) {
	if m.thread == nil {
		m.hint = n.Text
		if n.Next != "" {
			m.hint += " — " + n.Next
		}
		if n.Level == client.Warning {
			m.warnings = append(m.warnings, n)
		}
		return
	}
	m.thread.Note(n)
	m.view.Bottom()
}

func (m *Model) info(text string) { m.note(client.Notice{Text: text}) }

// Init implements [tea.Model].
func (m *Model) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.FocusMsg:
		m.blurred = false
	case tea.BlurMsg:
		m.blurred = true
	case tea.KeyPressMsg:
		cmd := m.key(msg)
		return m, tea.Batch(cmd, keepDraft(m), speak(m))
	case tea.PasteMsg:
		cmd := m.paste(msg.Content)
		return m, tea.Batch(cmd, keepDraft(m), speak(m))
	case keep:
		return m, saveDraft(m)
	case tea.MouseWheelMsg:
		switch msg.Button {
		case tea.MouseWheelUp:
			return m, m.scroll(-wheel)
		case tea.MouseWheelDown:
			return m, m.scroll(wheel)
		}
	case Events:
		var cmds []tea.Cmd
		for _, e := range msg {
			cmds = append(cmds, m.event(e))
		}
		cmds = append(cmds, m.after())
		return m, tea.Batch(cmds...)
	case Ended:
		if m.thread == nil {
			m.fatal = msg.Err
			return m, tea.Quit
		}
		m.lost = "the server can't be reached"
		if msg.Err != nil {
			m.lost += ": " + msg.Err.Error()
		}
	case applied:
		cmd := msg(m)
		return m, tea.Batch(cmd, m.after())
	case settled:
		if int(msg) == m.quiet && m.question != nil {
			m.question.Armed = true
		}
	case tick:
		m.ticking = false
		return m, m.after()
	}
	return m, nil
}

const wheel = 3

// draftDelay is how long a draft may change before it is kept.
const draftDelay = time.Second

// after starts what the state asks for.
func (m *Model) after() tea.Cmd {
	var cmds []tea.Cmd
	running := m.running()
	switch {
	case running == nil:
		m.began = time.Time{}
	case m.began.IsZero():
		m.began = m.now()
		if s := running.StartedAt; s > 0 {
			m.began = time.Unix(s, 0)
		}
	}
	if running != nil && !m.ticking && !m.speech.on {
		m.ticking = true
		cmds = append(cmds, m.later(time.Second, tick{}))
	}
	if t := m.thread; t != nil && t.QueueStale {
		t.QueueStale = false
		cmds = append(cmds, call(m, protocol.MethodThreadQueueList.Name, protocol.ThreadQueueListParams{ThreadID: t.ID},
			func(m *Model, r protocol.ThreadQueueListResponse, err error) tea.Cmd {
				if err == nil && m.thread == t {
					t.Queue = r.Data
				}
				return nil
			}))
	}
	cmds = append(cmds, m.ask(), speak(m))
	return tea.Batch(cmds...)
}

// quietTime is how long nothing may have been typed before the keys of a question count.
const quietTime = 400 * time.Millisecond

// ask shows the first open question.
func (m *Model) ask() tea.Cmd {
	if m.thread == nil || len(m.thread.Questions) == 0 {
		m.question = nil
		return nil
	}
	q := m.thread.Questions[0]
	if m.question != nil && m.question.Question.ID == q.ID {
		return nil
	}
	m.question = overlay.New(q, m.thread.Item(q.Turn, q.Item))
	m.picker = nil
	return tea.Batch(m.settle(), m.bell())
}

func (m *Model) settle() tea.Cmd {
	return m.later(quietTime, settled(m.quiet))
}

// bell calls the user back to the window.
func (m *Model) bell() tea.Cmd {
	if !m.blurred {
		return nil
	}
	return tea.Raw("\a")
}

func (m *Model) running() *client.Turn {
	if m.thread == nil {
		return nil
	}
	return m.thread.Running()
}

// maxEarly bounds the events of the moment in which a thread is opened.
const maxEarly = 4096

// event follows the connection.
func (m *Model) event(e client.Event) tea.Cmd {
	if m.starting && len(m.early) < maxEarly {
		m.early = append(m.early, e)
	}
	switch e := e.(type) {
	case client.Connected:
		m.lost = ""
		if m.thread == nil {
			return tea.Batch(m.start(), readSettings(m, e.Server.CodexHome))
		}
		return call(m, protocol.MethodThreadResume.Name, m.thread.Resume(), func(m *Model, _ protocol.ThreadResumeResponse, err error) tea.Cmd {
			m.fail(err)
			return nil
		})
	case client.Disconnected:
		m.lost, m.early = "the server was lost, and is started again", nil
		if m.thread != nil {
			m.thread.Disconnected()
		}
	case client.Notified:
		if m.thread == nil {
			return nil
		}
		before := m.thread.Running()
		m.thread.Apply(e.Notification)
		changed := m.roster.follow(m, e.Notification)
		if before != nil && m.thread.Running() == nil {
			return tea.Batch(changed, m.bell())
		}
		return changed
	case client.Asked:
		if m.thread != nil && e.Question.Thread == m.thread.ID {
			m.thread.Ask(e.Question)
		}
	}
	return nil
}

// start starts a thread.
func (m *Model) start() tea.Cmd {
	m.starting = true
	dir := m.cfg.Dir
	return call(m, protocol.MethodThreadStart.Name, protocol.ThreadStartParams{ThreadOverrides: protocol.ThreadOverrides{Cwd: &dir}},
		func(m *Model, r protocol.ThreadStartResponse, err error) tea.Cmd {
			m.starting = false
			if err != nil {
				m.early = nil
				m.fail(err)
				return nil
			}
			return m.open(client.NewThread(r))
		})
}

// pageOfTurns is how many turns are read at once.
const pageOfTurns = 20

// resume opens a thread that exists.
func (m *Model) resume(id string) tea.Cmd {
	m.starting = true
	limit, view := uint32(pageOfTurns), protocol.ItemsFull
	return call(m, protocol.MethodThreadResume.Name, protocol.ThreadResumeParams{
		ThreadID: id, ExcludeTurns: true, InitialTurnsPage: &protocol.ThreadResumeInitialTurnsPageParams{Limit: &limit, ItemsView: &view},
	}, func(m *Model, r protocol.ThreadResumeResponse, err error) tea.Cmd {
		m.starting = false
		if err != nil {
			m.early = nil
			m.fail(err)
			return nil
		}
		return m.open(client.ResumeThread(r))
	})
}

// open shows a thread, and leaves the one before.
func (m *Model) open(t *client.Thread) tea.Cmd {
	var cmds []tea.Cmd
	if m.thread != nil && m.thread.ID != t.ID {
		cmds = append(cmds, m.do(protocol.MethodThreadUnsubscribe.Name, protocol.ThreadUnsubscribeParams{ThreadID: m.thread.ID}))
	}
	catchUp(m, t)
	m.thread, m.pager, m.loading, m.hint, m.began = t, nil, false, "", time.Time{}
	t.QueueStale = true
	m.view.Reset()
	m.speech.opened(m)
	for _, it := range t.Items {
		if b, ok := it.Body.(protocol.UserMessageItem); ok {
			m.composer.Add(typed(b.Content))
		}
	}
	for _, n := range m.warnings {
		t.Note(n)
	}
	m.warnings = nil
	for _, text := range m.unsent {
		cmds = append(cmds, m.send(text))
	}
	m.unsent = nil
	return tea.Batch(cmds...)
}

// catchUp applies to a thread that is about to be shown what has arrived since the server answered.
func catchUp(m *Model, t *client.Thread) {
	again, seq := m.thread != nil && m.thread.ID == t.ID, *t.Resume().AfterSeq
	for _, e := range m.early {
		switch e := e.(type) {
		case client.Notified:
			if !again || e.Seq > seq { // what is older came for the thread as it was shown before
				t.Apply(e.Notification)
			}
		case client.Asked:
			if e.Question.Thread == t.ID {
				t.Ask(e.Question)
			}
		}
	}
	m.early = nil
}

// older reads the turns before those that are known, once the first of these is seen.
func (m *Model) older() tea.Cmd {
	t := m.thread
	top := m.view.AtTop()
	if m.pager != nil {
		top = m.pager.AtTop()
	}
	if t == nil || t.Older == nil || m.loading || !top {
		return nil
	}
	return readOlder(m, nil)
}

// readOlder reads the turns before those that are known, and then does something.
func readOlder(m *Model, then func(m *Model) tea.Cmd) tea.Cmd {
	t := m.thread
	m.loading = true
	limit, view := uint32(pageOfTurns), protocol.ItemsFull
	return call(m, protocol.MethodThreadTurnsList.Name, protocol.ThreadTurnsListParams{
		ThreadID: t.ID, Page: protocol.Page{Cursor: t.Older, Limit: &limit}, ItemsView: &view,
	}, func(m *Model, r protocol.ThreadTurnsListResponse, err error) tea.Cmd {
		m.loading = false
		if err != nil {
			m.fail(err)
			return nil
		}
		if m.thread == t {
			n := t.Prepend(r.Data, r.NextCursor)
			m.speech.done += n
			m.view.Prepended(n)
			if m.pager != nil {
				m.pager.Prepended(n)
			}
			if then != nil {
				return then(m)
			}
		}
		return nil
	})
}
