package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// The socket of a thread of any process speaks the app server's protocol, also to a client that came by `app-server proxy`.
func TestAppServerOnTheSocketOfAThread(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("touch there; until [ -e go ]; do sleep 0.01; done"))
	run := r.Start("exec", "wait")
	r.Until("the command runs", func() bool { return exists(r.Dir, "there") })
	sockets, err := filepath.Glob(filepath.Join(r.Home, "run", "*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets of the thread: %v, %v", sockets, err)
	}
	id := strings.TrimSuffix(filepath.Base(sockets[0]), ".sock")
	c := r.AppServer("proxy", "--sock", sockets[0])
	greet(t, c)
	var resumed struct {
		Thread struct {
			ID     string
			Status struct{ Type string }
		}
	}
	c.Call("thread/resume", map[string]any{"threadId": id}, &resumed)
	if resumed.Thread.ID != id || resumed.Thread.Status.Type != "active" {
		t.Errorf("resumed %+v", resumed)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if end := c.Notified("turn/completed"); !strings.Contains(string(end.Params), `"completed"`) {
		t.Errorf("the turn ended as %s", end.Params)
	}
	if res := run.Wait(); res.Code != 0 {
		t.Errorf("exec: %+v", res)
	}
	c.Ended() // with its process
}

// A command of an agent may read its thread over that socket, and nothing else.
func TestAppServerRefusesWhatItHasLaunched(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "(head -n 2 ask; until [ -s answers ]; do sleep 0.01; done; tail -n +3 ask) | \"$GANTRY\" app-server proxy --sock \"$SOCKETS\"/*.sock > answers", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "done" }]
`)
	r.Env = append(r.Env, "GANTRY="+filepath.Join(r.Bin, r.Host), "SOCKETS="+filepath.Join(r.Home, "run"))
	r.Write("ask", `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"x","version":"1"}}}
{"method":"initialized"}
{"id":2,"method":"thread/list","params":{}}
{"id":3,"method":"thread/start","params":{}}
{"id":4,"method":"command/exec","params":{"command":["touch","made"]}}
`)
	r.OK("exec", "-c", `sandbox.mode="full-access"`, "go")
	answers, err := os.ReadFile(filepath.Join(r.Dir, "answers"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(answers)) {
		id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id":`), ",")
		got[id] = line
	}
	if !strings.Contains(got["1"], `"result"`) || !strings.Contains(got["2"], `"result"`) {
		t.Errorf("it can't read: %s", answers)
	}
	if !strings.Contains(got["3"], `"error"`) || !strings.Contains(got["4"], `"error"`) || exists(r.Dir, "made") {
		t.Errorf("it can act: %s", answers)
	}
}
