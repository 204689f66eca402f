// Package crash_test kills gantry, its plugins and its launcher in the middle of a turn, goes on with the thread, and
// checks what must hold whatever the moment was.
//
// It owns: the moments, the victims, the workloads, the invariants. It must not know: anything inside gantry; it looks at
// files, at what is printed, and at what the model sees. The moments around everything that a crash could tear have names:
// host/internal/crashpoint.
//
// Start with [TestPoints], which kills a host at each named point, and [TestKills]. GANTRY_SOAK=N does N runs instead of a few;
// GANTRY_SEED repeats a draw.
package crash_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Each moment that can be seen from outside, and each victim, once.
func TestKills(t *testing.T) {
	t.Parallel()
	for _, m := range moments {
		t.Run("host when "+m.name, func(t *testing.T) {
			t.Parallel()
			live(t, []kill{{victim: "host", moment: m}})
		})
	}
	for _, victim := range []string{"gantry-tool-shell", "gantry-provider-scripted", "gantry-launch"} {
		for _, m := range moments[1:4] {
			t.Run(victim+" when "+m.name, func(t *testing.T) {
				t.Parallel()
				live(t, []kill{{victim: victim, moment: m}})
			})
		}
	}
}

// A call may end long before its output is due in the history: the answer that asked for it still streams. A host that is
// killed meanwhile loses nothing of the output.
func TestOutputOutlivesItsAnswer(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
chunk = 1
chunk_delay_ms = 20
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo the output", login = false } }, { text = "And while it runs I go on talking about what I will do with it." }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	run := r.Start("exec", "--events", "the task")
	run.Sees(`"call.ended"`)
	run.SeesTimes(`"item.delta"`, strings.Count(run.Stdout(), `"item.delta"`)+5) // what is committed is a moment behind
	before := lines(r.Log)
	run.Signal(os.Kill)
	if res := run.Wait(); strings.Contains(res.Stdout, `"turn.ended"`) || before != 1 {
		t.Fatalf("the host was killed too late:\n%s", tail(res.Stdout))
	}
	r.OK("resume", "--last", "go on")
	if out := r.Last().Outputs()["c1"]; !strings.Contains(out, "the output") {
		t.Errorf("the model reads %q", out)
	}
	r.NothingLeft()
}

// The model learns which calls of its code had started and not ended when the host was killed; none runs again.
func TestNestedCallsOfAKilledHost(t *testing.T) {
	t.Parallel()
	const ended, hangs = "echo ended >> ran", "touch started-c1; sleep 600; echo c1 >> ran"
	for name, call := range map[string]string{
		"python": cellCall("c1", "gantry.tools.exec_command(cmd='"+ended+"', login=False); gantry.tools.exec_command(cmd='"+hangs+"', login=False, yield_time_ms=30000)"),
		"script": scriptCall("c1", "await tools.exec_command({cmd: '"+ended+"', login: false}); await tools.exec_command({cmd: '"+hangs+"', login: false, yield_time_ms: 30000})"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, wanted("c1", call)+finished)
			addCode(r)
			run := r.Start("exec", "--events", theTask)
			strike(t, r, run, kill{victim: "host", moment: moment{seen: func(r *rig.Rig, _ *rig.Run) bool { return exists(r, "started-c1") }}})
			r.OK("resume", "--last", "go on")
			out := r.Last().Outputs()["c1"]
			if !strings.Contains(out, "outcome unknown") || !strings.Contains(out, "It had started these calls, which had not ended:\n- exec_command {") ||
				!strings.Contains(out, "sleep 600") || strings.Contains(out, "echo ended") {
				t.Errorf("the model reads %q", out)
			}
			if ran := r.Read("ran"); ran != "ended\n" {
				t.Errorf("%q ran", ran)
			}
			r.OK("resume", "--last", "is that all?")
			if again := r.Last().Outputs()["c1"]; again != out {
				t.Errorf("the model read first %q, then %q", out, again)
			}
			r.NothingLeft()
		})
	}
}

// So it does if the call that ran the code has been answered, since the code went on.
func TestNestedCallsOfALostCell(t *testing.T) {
	t.Parallel()
	const ended, hangs = "echo ended >> ran", "touch started-c1; sleep 600; echo c1 >> ran"
	code := "const last = tools.exec_command({cmd: '" + hangs + "', login: false, yield_time_ms: 30000}); " +
		"await tools.exec_command({cmd: 'until [ -e started-c1 ]; do sleep 0.01; done; " + ended + "', login: false, yield_time_ms: 30000}); yield_control(); " +
		"await tools.exec_command({cmd: 'touch later', login: false}); await last" // the call that waits makes this one: what was before is stored
	r := rig.New(t, wanted("c1", scriptCall("c1", code))+wanted("w1", `  { call = "wait", id = "w1", args = { cell_id = "1", yield_time_ms = 600000 } },`)+finished)
	addCode(r)
	run := r.Start("exec", "--events", theTask)
	strike(t, r, run, kill{victim: "host", moment: moment{seen: func(r *rig.Rig, _ *rig.Run) bool { return exists(r, "later") }}})
	r.OK("resume", "--last", "go on")
	if out := r.Last().Outputs()["c1"]; !strings.HasPrefix(out, "Script running") {
		t.Errorf("the call has the result %q", out)
	}
	const says = "had not ended:\n- exec_command {"
	list := slices.DeleteFunc(r.Last().Texts(llm.RoleUser), func(text string) bool { return !strings.Contains(text, says) })
	if len(list) != 1 || !strings.Contains(list[0], "sleep 600") || strings.Contains(list[0], "echo ended") {
		t.Errorf("the model reads %q", list)
	}
	if ran := r.Read("ran"); ran != "ended\n" {
		t.Errorf("%q ran", ran)
	}
	r.OK("resume", "--last", "is that all?")
	if n := strings.Count(strings.Join(r.Last().Texts(llm.RoleUser), "\n"), says); n != 1 {
		t.Errorf("the model reads it %d times", n)
	}
	r.NothingLeft()
}

// shortRuns is how many random runs every test of the module does; the long form is scripts/soak.
const shortRuns = 4

// Random victims at random moments, up to three in the life of one thread.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	runs, first := shortRuns, rand.Uint64()
	if s := os.Getenv("GANTRY_SOAK"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("GANTRY_SOAK: %v", err)
		}
		runs = n
	}
	if s := os.Getenv("GANTRY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("GANTRY_SEED: %v", err)
		}
		runs, first = 1, n
	}
	for i := range runs {
		seed := first + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			live(t, randomKills(seed))
		})
	}
}

// whole is about how long a run takes that nobody kills; random moments lie within.
const whole = 600 * time.Millisecond

func randomKills(seed uint64) []kill {
	r := rand.New(rand.NewPCG(seed, 0))
	var out []kill
	for range 1 + r.IntN(3) {
		k := kill{victim: "host"}
		if r.IntN(3) == 0 {
			k.victim = []string{"gantry-tool-shell", "gantry-provider-scripted", "gantry-launch"}[r.IntN(3)]
		}
		if r.IntN(4) == 0 {
			k.moment = moments[r.IntN(len(moments))]
		} else {
			after := time.Duration(r.Int64N(int64(whole)))
			k.moment = moment{name: fmt.Sprintf("%v have passed", after), after: after}
		}
		out = append(out, k)
	}
	return out
}

// kill is one SIGKILL.
type kill struct {
	victim string // "host", or a part of the command line of what it started
	moment moment
}

// moment is something that can be seen from outside, or an amount of time.
type moment struct {
	name  string
	seen  func(r *rig.Rig, run *rig.Run) bool
	after time.Duration
}
