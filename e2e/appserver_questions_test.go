package e2e_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// A client gets only the kinds of questions that it has declared. The others wait for another client.
func TestAppServerKindsOfQuestions(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("touch made"))
	server := r.Serve("unix", untrusted...)
	a, b := server.Connect(), server.Connect()
	hello := func(c *rig.Client, kinds []string) {
		t.Helper()
		c.Call("initialize", object{"clientInfo": object{"name": "test", "version": "1"}, "capabilities": object{"serverRequestMethods": kinds}}, nil)
	}
	hello(a, []string{"item/fileChange/requestApproval"})
	hello(b, []string{"item/commandExecution/requestApproval"})
	thread := begin(t, a, object{})
	submit(t, a, thread, "hi")
	a.Until(func(m rig.Message) bool { return strings.Contains(string(m.Params), "waitingOnApproval") })
	b.Call("thread/resume", object{"threadId": thread}, nil)
	b.Answer(b.Notified("item/commandExecution/requestApproval"), object{"decision": "accept"})
	b.Notified("turn/completed")
	a.Notified("turn/completed")
	for _, m := range a.All {
		if m.Method == "item/commandExecution/requestApproval" {
			t.Errorf("a client that has not declared such questions gets %s", m.Raw)
		}
	}
	if !exists(r.Dir, "made") {
		t.Error("the command did not run")
	}
}
