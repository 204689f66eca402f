package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// shortBrowserKills is how many processes every test of the module kills while a form is filled in; the long form is scripts/soak.
const shortBrowserKills = 3

func browserKills(t *testing.T) (int, *rand.Rand) {
	t.Helper()
	kills := shortBrowserKills
	if s := os.Getenv("GANTRY_SOAK"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("GANTRY_SOAK: %v", err)
		}
		kills = n
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return kills, rand.New(rand.NewPCG(seed, 1))
}

// moments is a site with a form that is sent in several requests: for the page, for each character that is typed, for what is sent, and from the
// page after it. It says when one of them has arrived, and answers none from that one on until it may.
type moments struct {
	*httptest.Server

	mu               sync.Mutex
	at, seen         int
	arrived, release chan struct{}
	sent             map[string]int
}

// lastMoment is how many requests a form leads to.
const lastMoment = 6

func newMoments(t *testing.T) *moments {
	t.Helper()
	s := &moments{sent: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		form := r.FormValue("form")
		if r.URL.Path != "/fine" {
			s.wait(r, form)
		}
		const head = "<!doctype html><link rel=icon href=data:,>"
		switch r.URL.Path {
		case "/form":
			fmt.Fprintf(w, head+`<title>Form</title><form action=/sent method=post><input type=hidden name=form value=%[1]q><input aria-label=Name oninput="fetch('/key?form=%[1]s')"><button>Send</button></form>`, form)
		case "/sent":
			fmt.Fprintf(w, head+`<title>Sent</title>Thank you for %[1]s<script>fetch('/after?form=%[1]s')</script>`, form)
		case "/fine":
			fmt.Fprint(w, head+"<title>Fine</title>All is fine")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *moments) wait(r *http.Request, form string) {
	s.mu.Lock()
	s.seen++
	if r.URL.Path == "/sent" {
		s.sent[form]++
	}
	if s.seen == s.at {
		close(s.arrived)
	}
	hold, release := s.seen >= s.at, s.release
	s.mu.Unlock()
	if hold {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
}

// next begins with another form, whose request number at is held.
func (s *moments) next(at int) (arrived, release chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.seen, s.arrived, s.release = at, 0, make(chan struct{}), make(chan struct{})
	return s.arrived, s.release
}

func (s *moments) count(form string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[form]
}

// fills are steps in which a form is opened, filled in and sent, and then another page is opened.
func (s *moments) fills(form string) string {
	return act("o"+form, fmt.Sprintf("{ navigate = { url = \"%s/form?form=%s\" } }", s.URL, form)) +
		act("f"+form, `{ input = { index = 1, text = "Ada" } }, { click = { index = 2 } }`)
}

// browserVictims are what is killed.
var browserVictims = []struct {
	name string
	find func(cmdline string) bool
}{
	{"plugin", func(c string) bool { return strings.Contains(c, "gantry-tool-browser") }},
	{"renderer", func(c string) bool { return strings.Contains(c, "--type=renderer") }},
	{"browser", func(c string) bool {
		return strings.Contains(c, "--remote-debugging-pipe") && !strings.Contains(c, "--type=")
	}},
}

// below finds processes below a host by their command line, but for those that start others.
func below(t *testing.T, host int, is func(cmdline string) bool) (out []int) {
	t.Helper()
	for pid := range rig.Descendants(t, host) {
		at := fmt.Sprintf("/proc/%d/", pid)
		cmdline, _ := os.ReadFile(at + "cmdline")
		comm, _ := os.ReadFile(at + "comm")
		if is(strings.ReplaceAll(string(cmdline), "\x00", " ")) && !strings.HasPrefix(string(comm), "gantry-launch") {
			out = append(out, pid)
		}
	}
	return out
}

// honest checks that a form was sent once at most, and that the model was told so, or that it can't be known.
func (s *moments) honest(t *testing.T, form, opened, filled string) {
	t.Helper()
	n := s.count(form)
	told := strings.Contains(filled, "Thank you for "+form)
	unknown := strings.Contains(filled, "crashed during the call") || strings.Contains(filled, "has crashed") || strings.Contains(filled, "browser has ended") || strings.Contains(filled, "outcome unknown") || strings.Contains(filled, "may have")
	if n > 1 || told && n == 0 || n == 1 && !told && !unknown {
		t.Errorf("form %s was sent %d times:\n%s\n%s", form, n, opened, filled)
	}
}

// Kills of the plugin, of what shows the pages, and of the browser, each at some moment while a form is filled in, send no form twice, leave nothing
// behind, and the call after the next one works.
func TestKillsOfBrowserLeaveNothing(t *testing.T) {
	t.Parallel()
	kills, random := browserKills(t)
	s := newMoments(t)
	var steps strings.Builder
	for i := range max(kills, len(browserVictims)) {
		form := strconv.Itoa(i)
		steps.WriteString(s.fills(form) + toolCall("s"+form, "browser_state", "") + act("n"+form, fmt.Sprintf("{ navigate = { url = %q } }", s.URL+"/fine")) + done)
	}
	r := newBrowser(t, browsers[0], steps.String())
	c := r.AppServer(reaching("workspace-write")...)
	greet(t, c)
	count := func() (processes, folders int) {
		return len(rig.Descendants(t, c.PID())), len(listFolders(r.Home, r.Dir))
	}
	run := func(kills int) { // in a thread of its own, which runs the script from its beginning
		thread := begin(t, c, map[string]any{})
		for i := range kills {
			victim, form, at := browserVictims[i%len(browserVictims)], strconv.Itoa(i), 1+random.IntN(lastMoment)
			s.mu.Lock()
			delete(s.sent, form)
			s.mu.Unlock()
			arrived, release := s.next(at)
			submit(t, c, thread, "go")
			<-arrived
			var running []int
			r.Until("the "+victim.name+" runs", func() bool { running = below(t, c.PID(), victim.find); return len(running) > 0 })
			for _, pid := range running { // one may have ended meanwhile
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			close(release)
			c.Notified("turn/completed")
			out := r.Last().Outputs()
			s.honest(t, form, out["o"+form], out["f"+form])
			if !strings.Contains(out["n"+form], "All is fine") || t.Failed() {
				t.Fatalf("after kill %d, of the %s at request %d:\n%s\n%s\n%s\n%s", i+1, victim.name, at, out["o"+form], out["f"+form], out["s"+form], out["n"+form])
			}
			if victim.name == "plugin" {
				r.OK("plugin", "reload", "browser") // which has crashed as often as it may
			}
		}
		c.Call("thread/delete", map[string]any{"threadId": thread}, nil)
		r.Until("the browser has ended", func() bool { return len(below(t, c.PID(), browserVictims[2].find)) == 0 })
		noProfileLeft(t, r)
	}
	run(len(browserVictims)) // what lives as long as the host is there after it
	processes, folders := count()
	run(kills)
	r.Until(fmt.Sprintf("%d kills have left nothing", kills), func() bool {
		p, f := count()
		return p <= processes && f <= folders
	})
	c.Close()
	r.NothingLeft()
	noProfileLeft(t, r)
}

// A reload of the plugin costs no tab, and neither does another one, also after a crash.
func TestBrowserOutlivesReloads(t *testing.T) {
	t.Parallel()
	s := form(t)
	steps := act("c0", fmt.Sprintf("{ navigate = { url = %q } }", s.URL)) + act("c1", `{ input = { index = 1, text = "Ada" } }`) + done
	const rounds = 4
	for i := range rounds {
		steps += toolCall(fmt.Sprintf("s%d", i), "browser_state", `mode = "full"`) + done
	}
	r := newBrowser(t, browsers[0], steps)
	c := r.AppServer(reaching("workspace-write")...)
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "go")
	c.Notified("turn/completed")
	for i := range rounds {
		if i == rounds/2 {
			rig.Kill(t, below(t, c.PID(), browserVictims[0].find)...)
		} else {
			r.OK("plugin", "reload", "browser")
		}
		submit(t, c, thread, "go on")
		c.Notified("turn/completed")
		if out := r.Last().Outputs()[fmt.Sprintf("s%d", i)]; !strings.Contains(out, "[1]<input id=n value=Ada") {
			t.Fatalf("after %d ends of the plugin: %s", i+1, out)
		}
	}
	c.Close()
	r.NothingLeft()
	noProfileLeft(t, r)
}

// A host that is killed while a form is filled in leaves no process, and another one neither sends the form again nor finds anything of the
// browser. The model is told what is not known.
func TestKillsOfTheHostOfABrowser(t *testing.T) {
	t.Parallel()
	kills, random := browserKills(t)
	s := newMoments(t)
	r := newBrowser(t, browsers[0], s.fills("0")+act("n", fmt.Sprintf("{ navigate = { url = %q } }", s.URL+"/fine"))+done)
	for i := range (kills + 2) / 3 {
		s.mu.Lock()
		s.sent = map[string]int{}
		s.mu.Unlock()
		at := 1 + random.IntN(lastMoment)
		arrived, release := s.next(at)
		run := r.Start(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
		<-arrived
		started := rig.Descendants(t, run.Cmd.Process.Pid)
		run.Signal(os.Kill)
		close(release)
		run.Wait()
		r.Until("all that the host had started has ended", func() bool { return len(rig.Alive(started)) == 0 })
		before := s.count("0")
		r.OK(append(append([]string{"resume"}, reaching("workspace-write")...), "--last", "go on")...)
		out := r.Last().Outputs()
		s.honest(t, "0", out["o0"], out["f0"])
		if n := s.count("0"); before == 1 && n != 1 {
			t.Errorf("kill %d at request %d: the form was sent %d times", i+1, at, n)
		}
		if !strings.Contains(fmt.Sprint(out["o0"], out["f0"]), "outcome unknown") || !strings.Contains(out["n"], "All is fine") {
			t.Fatalf("kill %d at request %d:\n%v", i+1, at, out)
		}
		r.NothingLeft()
		noProfileLeft(t, r)
	}
}
