package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// reached is a server on loopback that a command asks with curl.
func reached(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not here")
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello", r.Method) }))
	t.Cleanup(origin.Close)
	return origin.URL
}

// Commands reach what the rules allow, through the proxy alone, and the model is told so before it tries.
func TestNetworkThroughTheProxy(t *testing.T) {
	t.Parallel()
	url := reached(t)
	r := boxed(t, fmt.Sprintf(`
[[step]]
do = [
  { call = "exec_command", id = "allowed", args = { cmd = "curl -sS %[1]s", login = false } },
  { call = "exec_command", id = "straight", args = { cmd = "curl -sS --noproxy '*' %[1]s", login = false } },
  { call = "exec_command", id = "denied", args = { cmd = "curl -sS http://bad.test/", login = false } },
  { call = "exec_command", id = "other", args = { cmd = "curl -sS http://nope.test/", login = false } },
  { call = "exec_command", id = "tunnel", args = { cmd = "curl -sS https://nope.test/", login = false } },
  { call = "exec_command", id = "fronted", args = { cmd = "curl -sSk --connect-to evil.test:443:%[2]s https://evil.test/ || echo cut", login = false } },
]
[[step]]
times = -1
do = [{ text = "finished" }]
`, url, strings.TrimPrefix(url, "http://")))
	r.Config("network {\n  mode = \"proxy\"\n  allow = [\"127.0.0.1\", \"*.example.com\"]\n  deny = [\"bad.test\"]\n}\n")
	res := r.OK("exec", "-c", "approval.policy=never", "-c", "sandbox.mode=workspace-write", "go")
	out := r.Last().Outputs()
	for id, want := range map[string]string{
		"allowed": "hello GET", "straight": "onnect", "denied": `"reason":"denied"`, "other": `"reason":"not_allowed"`, "tunnel": "403", "fronted": "cut",
	} {
		if !strings.Contains(out[id], want) || id != "allowed" && strings.Contains(out[id], "hello") {
			t.Errorf("%s: %q, want %q", id, out[id], want)
		}
	}
	if !strings.Contains(res.Stderr+res.Stdout, "network access to nope.test:80 was refused (not_allowed)") {
		t.Errorf("shown:\n%s\n%s", res.Stdout, res.Stderr)
	}
	if !strings.Contains(res.Stderr, "was refused (name_mismatch: evil.test)") {
		t.Errorf("shown:\n%s", res.Stderr)
	}
	first := r.Requests()[0]
	if told := strings.Join(append(first.Texts(llm.RoleSystem), first.Texts(llm.RoleUser)...), "\n"); !strings.Contains(told, "127.0.0.1, *.example.com") {
		t.Errorf("the model is not told what it reaches:\n%s", told)
	}
	r.NothingLeft()

	sandbox := []string{"-c", "sandbox.mode=read-only"}
	text := r.OK(append([]string{"sandbox", "explain"}, sandbox...)...).Stdout
	for _, want := range []string{"only through a proxy", "allows 127.0.0.1, *.example.com", "denies bad.test", "others are refused"} {
		if !strings.Contains(text, want) {
			t.Errorf("explain lacks %q:\n%s", want, text)
		}
	}
	var facts struct {
		Proxy struct{ Allow, Deny []string }
	}
	if err := json.Unmarshal([]byte(r.OK(append([]string{"sandbox", "explain", "--json"}, sandbox...)...).Stdout), &facts); err != nil || len(facts.Proxy.Allow) != 2 || len(facts.Proxy.Deny) != 1 {
		t.Errorf("%+v, %v", facts, err)
	}
	own := r.Gantry(append([]string{"sandbox"}, append(sandbox, "--", "sh", "-c", "curl -sS "+url+"; curl -sS http://nope.test/")...)...)
	if !strings.Contains(own.Stdout, "hello GET") || !strings.Contains(own.Stderr, "http://nope.test:80 was refused") {
		t.Errorf("%s\n%s", own.Stdout, own.Stderr)
	}
}

// About a host that no rule names the user is asked while the command waits, once for all that want it. A yes lets it
// through, a no ends the command, and the model learns why.
func TestNetworkIsAskedAbout(t *testing.T) {
	t.Parallel()
	url := reached(t)
	r := boxed(t, fmt.Sprintf(`
[[step]]
do = [{ call = "exec_command", id = "yes", args = { cmd = "curl -sS %[1]s & curl -sS -X PUT %[1]s & wait; curl -sS -X POST %[1]s", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ call = "exec_command", id = "always", args = { cmd = "curl -sS %[1]s", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ call = "exec_command", id = "again", args = { cmd = "curl -sS %[1]s", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ call = "exec_command", id = "ruled", args = { cmd = "curl -sS http://ruled.test/", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ call = "exec_command", id = "no", args = { cmd = "curl -sS http://asked.test/; echo after", login = false, yield_time_ms = 30000 } }]
[[step]]
times = -1
do = [{ text = "finished" }]
`, url))
	// Nothing public is there to be reached, so what is asked about has to be of this machine.
	r.Config("network {\n  mode = \"proxy\"\n  local = true\n}\n")
	r.Write(filepath.Join(r.Home, "rules", "mine.rules"), "network_rule(host=\"ruled.test\", protocol=\"https\", decision=\"deny\")\n")
	run := r.Terminal("exec", "-c", "approval.policy=on-request", "-c", "sandbox.mode=workspace-write", "go")
	run.SeesTimes("answer: ", 1)
	run.Type("y\n")
	run.SeesTimes("answer: ", 2)
	run.Type("always\n")
	run.SeesTimes("answer: ", 3)
	run.Type("never\n")
	res := run.Wait()
	if res.Code != 0 || strings.Count(res.Stdout, "answer: ") != 3 || !strings.Contains(res.Stdout, "network access: http://127.0.0.1:") || !strings.Contains(res.Stdout, "http://asked.test:80") {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	out := r.Last().Outputs()
	for _, want := range []string{"hello GET", "hello PUT", "hello POST"} {
		if !strings.Contains(out["yes"], want) {
			t.Errorf("after a yes: %q lacks %q", out["yes"], want)
		}
	}
	// What is answered for good is a line that the user can read, and nobody is asked again.
	const line = `network_rule(host="127.0.0.1", protocol="http", decision="allow", justification="Allow http access to 127.0.0.1")`
	const never = `network_rule(host="asked.test", protocol="http", decision="deny", justification="Deny http access to asked.test")`
	written, err := os.ReadFile(filepath.Join(r.Home, "rules", "default.rules"))
	if err != nil || string(written) != line+"\n"+never+"\n" || !strings.Contains(res.Stdout, "deny always: writes "+never) || !strings.Contains(res.Stdout, "approve always: writes "+line) {
		t.Errorf("%v: written %q, asked:\n%s", err, written, res.Stdout)
	}
	for id, want := range map[string]string{"always": "hello GET", "again": "hello GET", "ruled": `"reason":"denied"`} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s: %q lacks %q", id, out[id], want)
		}
	}
	if strings.Contains(out["no"], "after") {
		t.Errorf("after a no the command went on: %q", out["no"])
	}
	last := r.Last()
	if told := strings.Join(append(last.Texts(llm.RoleSystem), last.Texts(llm.RoleUser)...), "\n"); !strings.Contains(told, "Network access to asked.test:80 was denied") {
		t.Errorf("the model is not told:\n%s", told)
	}
	r.NothingLeft()
}
