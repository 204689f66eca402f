package e2e_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// onServer is a user whose threads are on a server.
func onServer(t *testing.T, server *rig.Postgres, script string) *rig.Rig {
	t.Helper()
	r := rig.New(t, script)
	r.Host = "gantry-postgres"
	r.Config(`
store {
  driver = "postgres"
  dsn    = env("GANTRY_DSN")
}
`)
	r.Env = append(r.Env, "GANTRY_DSN="+server.Address+" password=verysecret")
	return r
}

// Threads on a server: two homes, as on two machines, share them; each host may be killed, and the server too.
func TestThreadsOnAServer(t *testing.T) {
	t.Parallel()
	server := rig.NewPostgres(t)

	t.Run("exec, resume and list from two homes", func(t *testing.T) {
		const script = `
[[step]]
when = { since_user = 0 }
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo GANTRY_DSN is $${GANTRY_DSN-unset}; echo ran >> ran", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`
		a, b := onServer(t, server, script), onServer(t, server, say)
		b.Dir = a.Dir
		a.OK("exec", "the task")
		if out := a.Last().Outputs()["c1"]; !strings.Contains(out, "GANTRY_DSN is unset") {
			t.Errorf("the command sees %q", out)
		}
		all := threads(t, b)
		if len(all) != 1 || all[0].Status != "completed" || all[0].Turns != 1 {
			t.Fatalf("the other home lists %+v", all)
		}
		b.OK("resume", all[0].ID, "go on")
		if texts := b.Last().Texts(llm.RoleUser); !slices.Contains(texts, "the task") || !slices.Contains(texts, "go on") {
			t.Errorf("in the other home the model sees %q", texts)
		}
		if all := threads(t, a); len(all) != 1 || all[0].Turns != 2 || a.Read("ran") != "ran\n" {
			t.Errorf("after resuming: %+v; ran: %q", all, a.Read("ran"))
		}
		for _, name := range []string{"threads.db", "state.db"} {
			if exists(a.Home, name) {
				t.Errorf("there is a %s", name)
			}
		}
		plain := *a
		plain.Host = "gantry"
		if res := plain.Gantry("threads", "list"); res.Code != 1 || !strings.Contains(res.Stderr, "run gantry-postgres instead of gantry") {
			t.Errorf("gantry: exit %d\n%s", res.Code, res.Stderr)
		}
		a.NothingLeft()
	})

	t.Run("a host is killed", func(t *testing.T) {
		const script = `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo ran >> ran; touch started; while [ ! -e go ]; do sleep 0.01; done", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`
		a, b := onServer(t, server, script), onServer(t, server, say)
		b.Dir = a.Dir
		run := a.Start("exec", "the task")
		a.Until("the command runs", func() bool { return exists(a.Dir, "started") })
		id := threads(t, b)[0].ID
		if res := b.Gantry("resume", id, "go on"); res.Code != 1 || !strings.Contains(res.Stderr, "is open in process") {
			t.Errorf("while it runs: exit %d\n%s", res.Code, res.Stderr)
		}
		run.Signal(os.Kill)
		run.Wait()
		b.OK("resume", id, "go on")
		if out := b.Last().Outputs()["c1"]; !strings.Contains(out, "outcome") || a.Read("ran") != "ran\n" {
			t.Errorf("the model reads %q; ran: %q", out, a.Read("ran"))
		}
		if all := threads(t, b); len(all) != 1 || all[0].Turns != 2 || all[0].Status != "completed" {
			t.Errorf("%+v", all)
		}
		b.NothingLeft()
	})

	t.Run("the server is killed", func(t *testing.T) {
		r := onServer(t, server, strings.Replace(full, `do = [{ text = "so be it, then" }]`, `do = [{ text = "`+strings.Repeat("so be it, then. ", 50)+`" }]`, 1))
		run := r.Start("exec", "--events", "go")
		r.Until("the first command runs", func() bool { return exists(r.Dir, "started") })
		server.Kill()
		r.Write("go", "")
		run.Sees("the store can't save events")
		run.Sees("was not started") // the turn has gone on without the second command
		server.Restart()
		run.Sees("the store works again")
		run.Signal(os.Interrupt)
		res := run.Wait()
		if n := strings.Count(res.Stdout, "the store can't save events"); n != 1 || !strings.Contains(res.Stdout, "Check that the server is running") {
			t.Errorf("the user reads of it %d times:\n%s", n, res.Stdout)
		}
		if strings.Contains(res.Stdout+res.Stderr, "verysecret") {
			t.Error("the password is told")
		}
		if out := r.Last().Outputs()["c2"]; !strings.Contains(out, "was not started") || r.Read("ran") != "first\n" {
			t.Errorf("the model reads %q; ran: %q", out, r.Read("ran"))
		}
		printed := rig.Events(t, res.Stdout)
		rig.Gapless(t, printed, 1)
		stored := rig.Events(t, r.OK("threads", "show", "--events", printed[0].Thread).Stdout)
		rig.Gapless(t, stored, 1)
		if a, b := kinds(printed), kinds(stored); !slices.Equal(a, b) {
			t.Errorf("printed\n%v\nand stored\n%v", a, b)
		}
		r.NothingLeft()
	})
}
