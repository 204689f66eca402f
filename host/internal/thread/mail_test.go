package thread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func mail(text string, trigger bool) event.Mail {
	return event.Mail{Author: "/root/a", Recipient: "/root", Type: event.MailMessage, Text: text, TriggerTurn: trigger, AuthorTurn: "turn of a"}
}

// asked writes a request: the words, one after the other; of mail its text.
func asked(r *llm.Request) string {
	var out []string
	for _, m := range r.Messages {
		text := m.Text()
		if history.IsMail(m) {
			_, text, _ = strings.Cut(text, "Payload:\n")
			text = "mail " + strings.TrimSuffix(text, "\n</agent_message>")
		} else if strings.HasPrefix(text, "<turn_aborted>") {
			text = "T"
		}
		out = append(out, text)
	}
	return strings.Join(out, "|")
}

// parrot answers each request with its number, and notes what it was asked. It holds answer n back as long as hold(n) is open.
func parrot(seen *[]string, hold func(n int) <-chan struct{}) *engine {
	return &engine{stream: func(ctx context.Context, n int, r *llm.Request, yield func(llm.Event, error) bool) {
		*seen = append(*seen, asked(r))
		if c := hold(n); c != nil {
			select {
			case <-c:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
		say(fmt.Sprint("A", n), yield)
	}}
}

func atOnce(int) <-chan struct{} { return nil }

func starts(evs []event.Event) (out []event.TurnStarted) {
	for _, e := range evs {
		if s, ok := e.Body.(event.TurnStarted); ok {
			out = append(out, s)
		}
	}
	return out
}

// Mail that triggers a turn begins one where none runs; other mail waits for the next one, and is read with it.
func TestMailForAnIdleThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		sink := &memory{}
		th, stop := startThread(t, parrot(&seen, atOnce), sink)
		defer stop()
		post := func(m event.Mail) Posted {
			t.Helper()
			p, err := th.Post(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return p
		}
		if p := post(mail("first", false)); p.Turn != "" || p.Began || p.Item == "" || len(seen) > 0 {
			t.Errorf("%+v, asked %q: mail that only waits began a turn", p, seen)
		}
		if p := post(mail("second", true)); !p.Began || p.Turn == "" {
			t.Errorf("%+v: the mail began no turn", p)
		}
		post(mail("third", false))
		if _, err := th.Submit(t.Context(), input("go")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		post(mail("fourth", true))
		want := []string{
			"mail first|mail second", "mail first|mail second|A1|mail third|go", "mail first|mail second|A1|mail third|go|A2|mail fourth",
		}
		if !slices.Equal(seen, want) {
			t.Errorf("asked %q, want %q", seen, want)
		}
		s := starts(sink.all())
		if len(s) != 3 || !s[0].ByMail || s[0].Parent != "turn of a" || s[1].ByMail || s[1].Parent != "" || !s[2].ByMail {
			t.Errorf("turns %+v", s)
		}
		for _, m := range []event.Mail{{}, {Author: "a", Recipient: "b", Type: event.MailMessage}} {
			if _, err := th.Post(t.Context(), m); err == nil {
				t.Errorf("%+v is taken", m)
			}
		}
	})
}

// Mail behind the last word of a turn waits for its end: then it begins one, if it asks for that.
func TestMailBehindTheLastWord(t *testing.T) {
	for _, trigger := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var seen []string
			sink := &memory{}
			e := &engine{}
			th, stop := startThread(t, e, sink)
			defer stop()
			said, open := make(chan struct{}), make(chan struct{})
			e.stream = func(ctx context.Context, n int, r *llm.Request, yield func(llm.Event, error) bool) {
				seen = append(seen, asked(r))
				say(fmt.Sprint("A", n), func(ev llm.Event, err error) bool {
					if _, ends := ev.(llm.StepFinish); ends && n == 1 {
						close(said)
						<-open
					}
					return yield(ev, err)
				})
			}
			a, err := th.Submit(t.Context(), input("go"))
			if err != nil {
				t.Fatal(err)
			}
			<-said
			p, err := th.Post(t.Context(), mail("late", trigger))
			if err != nil || p.Turn != a.Turn || p.Began {
				t.Errorf("%+v, %v", p, err)
			}
			close(open)
			synctest.Wait()
			want := []string{"go"}
			if trigger {
				want = append(want, "go|A1|mail late")
			}
			if !slices.Equal(seen, want) || th.mail.Pending() == trigger {
				t.Errorf("asked %q, want %q", seen, want)
			}
		})
	}
}

// A thread that is ended behind its turn begins none for mail: whoever goes on with it reads it.
func TestMailForAThreadThatIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		open := make(chan struct{})
		sink := &memory{}
		th, stop := startThread(t, parrot(&seen, func(int) <-chan struct{} { return open }), sink)
		last := input("go")
		last.ExitAfterTurn = true
		if _, err := th.Submit(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		th.mail.Add(mail("behind the answer", true))
		close(open)
		synctest.Wait()
		if p, err := th.Post(t.Context(), mail("behind the turn", true)); err != nil || p.Began || p.Turn != "" {
			t.Errorf("%+v, %v", p, err)
		}
		synctest.Wait()
		stop()
		if len(seen) != 1 || len(starts(sink.all())) != 1 || len(th.mail.Waiting()) != 2 {
			t.Errorf("asked %q, %d turns", seen, len(starts(sink.all())))
		}
	})
}

// Whoever stops a turn gets the next one with the mail that it had not read. A turn that can't be planned is not begun for its mail
// again and again.
func TestMailOutlivesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		sink := &memory{}
		e := parrot(&seen, func(n int) <-chan struct{} {
			if n == 1 {
				return make(chan struct{})
			}
			return nil
		})
		th, stop := startThread(t, e, sink)
		defer stop()
		if _, err := th.Submit(t.Context(), input("go")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := th.Post(t.Context(), mail("queued", false)); err != nil {
			t.Fatal(err)
		}
		if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		plans := 0
		e.plan = func(context.Context, *Plan) error { plans++; return errors.New("no model") }
		if p, err := th.Post(t.Context(), mail("trigger", true)); err != nil || !p.Began {
			t.Fatalf("%+v, %v", p, err)
		}
		synctest.Wait()
		if plans != 1 {
			t.Errorf("the turn was planned %d times", plans)
		}
		e.plan = nil
		if _, err := th.Submit(t.Context(), input("again")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if want := []string{"go", "go|T|mail queued|mail trigger|again"}; !slices.Equal(seen, want) {
			t.Errorf("asked %q, want %q", seen, want)
		}
	})
}

// A compaction takes nothing out of the mailbox, and what was read stays beside the account. Reverting takes back what a turn read,
// and leaves what waits.
func TestMailAndShorterHistories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		sink := &memory{}
		th, stop := startThread(t, talker(0, &seen), sink)
		defer stop()
		post := func(text string, trigger bool) Posted {
			t.Helper()
			p, err := th.Post(t.Context(), mail(text, trigger))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return p
		}
		first := post("first", true)
		post("waits", false)
		if _, err := th.Submit(t.Context(), Submission{Compact: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cp := sink.all()
		at := slices.IndexFunc(cp, func(e event.Event) bool { return e.Body.Kind() == "history.compacted" })
		if at < 0 {
			t.Fatal("nothing was compacted")
		}
		s, err := Rebuild(seq(cp[at:]))
		if err != nil || len(s.Mail) != 1 || s.Mail[0].Text != "waits" {
			t.Errorf("from the checkpoint on there waits %+v, %v", s.Mail, err)
		}
		if c := cp[at].Body.(event.HistoryCompacted); len(c.Messages) < 2 || !history.IsMail(c.Messages[0]) {
			t.Errorf("what was read is not kept: %+v", c.Messages)
		}
		if _, err := th.Revert(t.Context(), before(t, sink, first.Turn)); err != nil {
			t.Fatal(err)
		}
		if w := th.mail.Waiting(); len(w) != 1 || w[0].Text != "waits" {
			t.Errorf("there waits %+v", w)
		}
		if s, err = Rebuild(seq(sink.all())); err != nil || len(s.Mail) != 1 || s.Mail[0].Text != "waits" {
			t.Errorf("the log says that there waits %+v, %v", s.Mail, err)
		}
		for _, body := range s.Fork("other") {
			if f, ok := body.(event.ThreadForked); ok && len(f.Thread.Mail) > 0 {
				t.Errorf("a fork gets mail that is for the other thread: %+v", f.Thread.Mail)
			}
		}
		for _, body := range s.Recovered("other") {
			if f, ok := body.(event.ThreadForked); ok && len(f.Thread.Mail) != 1 {
				t.Errorf("what is recovered lost its mail: %+v", f.Thread.Mail)
			}
		}
	})
}

// Wherever a host dies, each mail whose author was told that it was taken is in the history or in the mailbox, and in one of them.
func TestMailOutlivesTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		hold := make(chan struct{})
		sink := &crashing{}
		th, stop := startThread(t, parrot(&seen, func(n int) <-chan struct{} {
			if n == 2 {
				return hold
			}
			return nil
		}), sink)
		taken := map[string]int{} // after how many events
		post := func(text string, trigger bool) {
			t.Helper()
			if _, err := th.Post(t.Context(), mail(text, trigger)); err != nil {
				t.Fatal(err)
			}
			taken[text] = len(sink.all())
			synctest.Wait()
		}
		post("waits", false)
		post("begins", true)
		if _, err := th.Submit(t.Context(), input("go")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		post("meanwhile", true)
		post("and this", false)
		close(hold)
		synctest.Wait()
		post("last", false)
		stop()
		for _, end := range sink.ends {
			s, err := Rebuild(seq(sink.all()[:end]))
			if err != nil {
				t.Fatal(err)
			}
			n := map[string]int{}
			for _, m := range s.Messages {
				for text := range taken {
					if history.IsMail(m) && strings.Contains(m.Text(), "\n"+text+"\n") {
						n[text]++
					}
				}
			}
			for _, m := range s.Mail {
				n[m.Text]++
			}
			for text, after := range taken {
				if end >= after && n[text] != 1 || n[text] > 1 {
					t.Errorf("a crash after event %d: %q is there %d times", end, text, n[text])
				}
			}
		}
		s, err := Rebuild(seq(sink.all()))
		if err != nil || len(s.Mail) != 1 || s.Mail[0].Text != "last" {
			t.Fatalf("at the end there waits %+v, %v", s.Mail, err)
		}
		again := New(Config{ID: th.ID(), State: s, Sink: sink, Engine: &engine{}, Logger: th.cfg.Logger})
		if w := again.mail.Waiting(); len(w) != 1 || again.mail.Call() {
			t.Errorf("resumed, there waits %+v", w)
		}
	})
}

// A mailbox has a bound, and an archived thread takes none.
func TestMailThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		th, stop := startThread(t, parrot(&seen, atOnce), &memory{})
		for !th.mail.Full() {
			if _, err := th.Post(t.Context(), mail("more", false)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := th.Post(t.Context(), mail("too much", false)); !errors.Is(err, turn.ErrMailboxFull) {
			t.Error(err)
		}
		if err := th.Archive(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if _, err := th.Post(t.Context(), mail("gone", false)); !errors.Is(err, ErrArchived) {
			t.Error(err)
		}
		stop()
		th.archived.Store(false)
		if _, err := th.Post(t.Context(), mail("gone", false)); err == nil {
			t.Error("a thread that has ended takes mail")
		}
	})
}
