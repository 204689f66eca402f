// Package model_test lets threads change their models, fall back, spend and stop: real providers against the services of
// vendors on loopback.
//
// It owns: what a user sees of which model answers, and why. It must not know: how a vendor's wire looks (e2e/vendors).
//
// Start with [TestSwap].
package model_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// services are the vendors of these tests.
var services = map[string]struct{ source, path, model string }{
	"openai":    {"builtin/openai", "/v1", "gpt-5.4"},
	"anthropic": {"builtin/anthropic", "/v1", "claude-opus-4-8"},
	"google":    {"builtin/google", "/v1beta", "gemini-3.5-flash"},
}

// serve starts a vendor's service.
func serve(t *testing.T, label string, answers ...vendors.Answer) *vendors.Server {
	t.Helper()
	format := map[string]string{"openai": "openai-responses", "anthropic": "anthropic", "google": "gemini"}[label]
	return vendors.Start(t, format, answers...)
}

// block is the provider block for a service, and a model block that has the provider's label.
func block(label, url, more string) string {
	s := services[label]
	return fmt.Sprintf("provider %q {\n  source = %q\n  base_url = %q\n  api_key = env(\"VENDOR_KEY\")\n}\nmodel %q {\n  provider = %q\n  name = %q\n%s\n}\n",
		label, s.source, url+s.path, label, label, s.model, more)
}

// configured is a rig with a key for all services.
func configured(t *testing.T, hcl ...string) *rig.Rig {
	t.Helper()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"scripted\" }]\n")
	r.Env = append(r.Env, "VENDOR_KEY="+vendors.Key)
	r.Config(strings.Join(hcl, ""))
	return r
}

func command(cmd string) vendors.Call {
	return vendors.Call{Name: "exec_command", Args: map[string]any{"cmd": cmd, "login": false}}
}

// body is the last request that a service got.
func body(t *testing.T, s *vendors.Server) string {
	t.Helper()
	all := s.Requests()
	if len(all) == 0 {
		t.Fatal("the service got no request")
	}
	return string(all[len(all)-1].Raw)
}

// A thread goes on with another vendor and comes back: by --model, which is kept for later resumes, and by an edit of the
// configuration. Each service is as strict as the real one: it wants its own reasoning back and takes nobody else's.
func TestSwap(t *testing.T) {
	t.Parallel()
	work := func(text string) []vendors.Answer {
		return []vendors.Answer{
			{Reasoning: "Thinking about " + text, Text: "I look.", Calls: []vendors.Call{command("echo " + text)}},
			{Reasoning: "Thinking on.", Text: "done " + text},
		}
	}
	openai := serve(t, "openai", append(work("one"), append(work("three"), vendors.Answer{Text: "five"})...)...)
	anthropic := serve(t, "anthropic", append(work("two"), vendors.Answer{Text: "two again"}, vendors.Answer{Text: "four"})...)
	r := configured(t, block("openai", openai.URL, ""), block("anthropic", anthropic.URL, ""))
	says := func(want string, args ...string) rig.Result {
		t.Helper()
		res := r.OK(args...)
		if strings.TrimSpace(res.Stdout) != want {
			t.Errorf("gantry %v printed %q, want %q", args, res.Stdout, want)
		}
		return res
	}
	says("done one", "exec", "--model", "openai", "first")
	res := says("done two", "resume", "--last", "--model", "anthropic", "second")
	if !strings.Contains(res.Stderr, "model changed from gpt-5.4 (openai) to claude-opus-4-8 (anthropic)") {
		t.Errorf("the change is not told:\n%s", res.Stderr)
	}
	got := body(t, anthropic)
	for _, want := range []string{"first", "echo one", "done one", "second"} {
		if !strings.Contains(got, want) {
			t.Errorf("the other vendor does not see %q:\n%s", want, got)
		}
	}
	for _, not := range []string{"Thinking about one", "encrypted_content", "rs_"} {
		if strings.Contains(got, not) {
			t.Errorf("the other vendor sees %q:\n%s", not, got)
		}
	}
	if res := says("two again", "resume", "--last", "third"); strings.Contains(res.Stderr, "model changed") {
		t.Errorf("a change is told where there was none:\n%s", res.Stderr)
	}
	// Back by the provider's own name for the model, without a block.
	res = says("done three", "resume", "--last", "--model", "openai/gpt-5.4", "fourth")
	if !strings.Contains(res.Stderr, "model changed from claude-opus-4-8 (anthropic) to gpt-5.4 (openai)") {
		t.Errorf("the change back is not told:\n%s", res.Stderr)
	}
	if got := body(t, openai); strings.Contains(got, "signature") || strings.Contains(got, "Thinking about two") || !strings.Contains(got, "done two") {
		t.Errorf("the first vendor sees:\n%s", got)
	}
	// The user edits what a label means.
	says("four", "resume", "--last", "--model", "anthropic", "fifth")
	r.Config("profile \"moved\" {\n  model \"anthropic\" {\n    provider = \"openai\"\n    name = \"gpt-5.4\"\n  }\n}\n")
	res = says("five", "resume", "--last", "--profile", "moved", "sixth")
	if !strings.Contains(res.Stderr, "model changed from claude-opus-4-8 (anthropic) to gpt-5.4 (openai)") {
		t.Errorf("the edit is not told:\n%s", res.Stderr)
	}
	var changes []string
	for _, e := range rig.Events(t, r.OK("threads", "show", "--events", last(t, r)).Stdout) {
		if e.Kind == "model.changed" {
			var b struct {
				From, To struct{ Model, Provider, ModelName string }
			}
			e.Into(t, &b)
			changes = append(changes, b.From.Model+">"+b.To.Model+"@"+b.To.Provider)
		}
	}
	if got, want := strings.Join(changes, " "), "openai>anthropic@anthropic anthropic>openai/gpt-5.4@openai openai/gpt-5.4>anthropic@anthropic anthropic>anthropic@openai"; got != want {
		t.Errorf("changes %s\nwant %s", got, want)
	}
}

// last is the newest thread's id.
func last(t *testing.T, r *rig.Rig) string {
	t.Helper()
	var rows []struct{ ID string }
	if err := json.Unmarshal([]byte(r.OK("threads", "list", "--json").Stdout), &rows); err != nil || len(rows) == 0 {
		t.Fatalf("%d threads, %v", len(rows), err)
	}
	return rows[0].ID
}

// A model that is not there is told before the thread is touched.
func TestUnknownModel(t *testing.T) {
	t.Parallel()
	r := configured(t, block("openai", "http://127.0.0.1:9", ""))
	r.OK("exec", "first")
	before := len(r.OK("threads", "show", "--events", last(t, r)).Stdout)
	for name, want := range map[string]string{
		"opnai": `there is no model "opnai"`, "opnai/gpt-5.4": `there is no provider "opnai"`,
	} {
		for _, args := range [][]string{{"exec", "--model", name, "x"}, {"resume", "--last", "--model", name, "x"}} {
			res := r.Gantry(args...)
			if res.Code == 0 || !strings.Contains(res.Stderr, want) || !strings.Contains(res.Stderr, `did you mean "openai"?`) {
				t.Errorf("gantry %v: exit %d:\n%s", args, res.Code, res.Stderr)
			}
		}
	}
	if after := len(r.OK("threads", "show", "--events", last(t, r)).Stdout); after != before {
		t.Error("the thread was touched")
	}
	// A thread whose model was taken away says how to go on.
	r.OK("resume", "--last", "--model", "scripted/scripted", "second")
	res := r.Gantry("-c", "provider.scripted.enabled=false", "resume", "--last", "third")
	if res.Code == 0 || !strings.Contains(res.Stderr, `provider "scripted" is disabled`) || !strings.Contains(res.Stderr, "--model NAME` goes on with another model") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
}

// Where a model can't answer, those that its block names go on, people read once why, and the next turn begins with the
// model itself.
func TestFallback(t *testing.T) {
	t.Parallel()
	openai := serve(t, "openai",
		vendors.Answer{Text: "I look.", Calls: []vendors.Call{command("echo one")}}, vendors.Answer{Fail: 401},
		vendors.Answer{Text: "well again"})
	google := serve(t, "google", vendors.Answer{Text: "on it", Calls: []vendors.Call{command("echo two")}}, vendors.Answer{Text: "done"})
	r := configured(t, block("openai", openai.URL, "  fallback = [\"anthropic\", \"google\"]"),
		strings.ReplaceAll(block("anthropic", "http://127.0.0.1:9", ""), "VENDOR_KEY", "NOT_SET"), block("google", google.URL, ""))
	res := r.OK("exec", "--model", "openai", "go")
	if !strings.Contains(res.Stdout, "done") {
		t.Errorf("printed %q", res.Stdout)
	}
	if n := strings.Count(res.Stderr, "continues this turn"); n != 1 {
		t.Errorf("%d notices:\n%s", n, res.Stderr)
	}
	for _, want := range []string{`"google" (google/gemini-3.5-flash) continues this turn`, `"openai" (openai/gpt-5.4): `, `"anthropic" (anthropic/claude-opus-4-8): `, "NOT_SET", `The next turn begins with "openai" again.`} {
		if !strings.Contains(res.Stderr, want) {
			t.Errorf("the user does not read %q:\n%s", want, res.Stderr)
		}
	}
	if got := body(t, google); strings.Count(got, "one") < 2 || strings.Count(got, "two") < 2 {
		t.Errorf("the one that goes on does not see both calls:\n%s", got)
	}
	res = r.OK("resume", "--last", "again")
	if !strings.Contains(res.Stdout, "well again") || strings.Contains(res.Stderr, "model changed") {
		t.Errorf("the next turn: %q\n%s", res.Stdout, res.Stderr)
	}
}

// A model whose provider does not even start is no reason to wait: another takes the turn from its beginning.
func TestFallbackFromTheBeginning(t *testing.T) {
	t.Parallel()
	google := serve(t, "google", vendors.Answer{Text: "done"})
	r := configured(t, strings.ReplaceAll(block("openai", "http://127.0.0.1:9", "  fallback = [\"google\", \"anthropic\"]"), "VENDOR_KEY", "NOT_SET"),
		block("google", google.URL, ""), block("anthropic", "http://127.0.0.1:9", ""))
	res := r.OK("exec", "--model", "openai", "go")
	for _, want := range []string{"model gemini-3.5-flash (google)", `"google" (google/gemini-3.5-flash) continues this turn`, "NOT_SET"} {
		if !strings.Contains(res.Stderr, want) {
			t.Errorf("the user does not read %q:\n%s", want, res.Stderr)
		}
	}
	// A mistake in the thread's own block is not passed over.
	res = r.Gantry("-c", `model.openai.hosted_tools=["web_serch"]`, "-c", "provider.openai.api_key=k", "exec", "--model", "openai", "go")
	if res.Code != 1 || !strings.Contains(res.Stderr, `has no hosted tool "web_serch"`) {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
}

// A change of the model never joins a turn that runs, also in another process.
func TestSwitchElsewhere(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "while [ ! -e go ]; do sleep 0.02; done; echo went", login = false } }]
[[step]]
times = -1
do = [{ text = "model ${model}" }]
`)
	r.Config("model \"second\" {\n  provider = \"scripted\"\n  name = \"other\"\n}\n")
	first := r.Start("exec", "--events", "first")
	r.Until("the call runs", func() bool { return strings.Contains(first.Stdout(), "call.started") })
	second := r.Start("resume", "--last", "--model", "second", "second")
	second.Sees("another process runs this thread")
	r.Write("go", "")
	// The process of an exec ends with its turn, mostly before the next one begins. Nothing is lost by saying it again.
	if res := second.Wait(); strings.Contains(res.Stderr, "the thread is closed") && !strings.Contains(res.Stderr, "Next: run the command again") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	if res := first.Wait(); !strings.Contains(res.Stdout, "model scripted") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stdout)
	}
	r.OK("resume", "--last", "--model", "second", "second")
	var models []string
	for _, q := range r.Requests() {
		models = append(models, q.Request.Model)
	}
	if got := strings.Join(models, " "); !strings.HasPrefix(got, "scripted scripted other") || strings.Count(got, "scripted") != 2 {
		t.Errorf("the models that were asked: %s", got)
	}
}

// When nobody can answer, the user reads why of each, and the thread goes on as soon as one can.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	openai := serve(t, "openai", vendors.Answer{Fail: 401}, vendors.Answer{Text: "back"})
	google := serve(t, "google", vendors.Answer{Fail: 403})
	r := configured(t, block("openai", openai.URL, "  fallback = [\"google\"]"), block("google", google.URL, ""))
	res := r.Gantry("exec", "--model", "openai", "go")
	if res.Code != 1 || !strings.Contains(res.Stderr, "Error: no model can answer: \"openai\" (openai/gpt-5.4): ") || !strings.Contains(res.Stderr, "; \"google\" (google/gemini-3.5-flash): ") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	r.OK("resume", "--last", "go on")
}

// A key that is missing or wrong: the variable, the line, and what else could be used.
func TestKeys(t *testing.T) {
	t.Parallel()
	wrong := serve(t, "openai", vendors.Answer{Fail: 401})
	r := configured(t, fmt.Sprintf(`
provider "unset" {
  source  = "builtin/openai"
  api_key = env("NOT_SET_ANYWHERE")
}
provider "none" {
  source = "builtin/openai"
}
provider "wrong" {
  source   = "builtin/openai"
  base_url = %q
  api_key  = env("VENDOR_KEY")
}
`, wrong.URL+"/v1"))
	for label, want := range map[string][]string{
		"unset": {"NOT_SET_ANYWHERE", "none, wrong"},
		"none":  {`provider "none": `, "for OpenAI", `api_key = env("OPENAI_API_KEY")`, "unset, wrong"},
		"wrong": {`provider "wrong": `, "the service says no", "none"},
	} {
		res := r.Gantry("exec", "--model", label+"/gpt-5.4", "go")
		if res.Code != 1 {
			t.Errorf("%s: exit %d", label, res.Code)
		}
		for _, w := range append(want, "gantry.hcl:", "use another configured provider (--model PROVIDER/MODEL): ") {
			if !strings.Contains(res.Stderr, w) {
				t.Errorf("%s: the user does not read %q:\n%s", label, w, res.Stderr)
			}
		}
		if strings.Contains(res.Stderr, "rpc error") || strings.Contains(res.Stderr, vendors.Key) {
			t.Errorf("%s: the user reads:\n%s", label, res.Stderr)
		}
	}
	// The place is that of the block, or of the argument in it.
	hcl, err := os.ReadFile(r.Home + "/gantry.hcl")
	if err != nil {
		t.Fatal(err)
	}
	line := func(text string) int { return strings.Count(string(hcl[:strings.Index(string(hcl), text)]), "\n") + 1 }
	for label, at := range map[string]int{"unset": line(`env("NOT_SET_ANYWHERE")`), "none": line(`provider "none"`)} {
		if res := r.Gantry("exec", "--model", label+"/gpt-5.4", "go"); !strings.Contains(res.Stderr, fmt.Sprintf("gantry.hcl:%d", at)) {
			t.Errorf("%s: the user does not read line %d:\n%s", label, at, res.Stderr)
		}
	}
}

// What a turn cost is shown, kept over a resume, and bounded: the turn ends before a request that the budget has no room
// for.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := serve(t, "openai", vendors.Answer{Text: "one"}, vendors.Answer{Text: "I look.", Calls: []vendors.Call{command("echo two")}}, vendors.Answer{Text: "three"})
	r := configured(t, block("openai", s.URL, ""))
	res := r.OK("exec", "--model", "openai", "first")
	if !strings.Contains(res.Stderr, " out · $0.0") {
		t.Errorf("no cost:\n%s", res.Stderr)
	}
	res = r.Gantry("-c", "budget.turn_tokens=10", "resume", "--last", "second")
	if res.Code != 1 || !strings.Contains(res.Stderr, "Error: the budget is reached: the turn has used ") || !strings.Contains(res.Stderr, "budget.turn_tokens is 10") ||
		!strings.Contains(res.Stderr, "-c budget.turn_tokens=") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	if n := len(s.Requests()); n != 2 {
		t.Errorf("%d requests, want 2: the call's output is not sent", n)
	}
	res = r.Gantry("-c", "budget.usd=0.0001", "resume", "--last", "third")
	if res.Code != 1 || !strings.Contains(res.Stderr, "the thread has used $0.0") || len(s.Requests()) != 2 {
		t.Errorf("exit %d after %d requests:\n%s", res.Code, len(s.Requests()), res.Stderr)
	}
	res = r.OK("resume", "--last", "--json", "fourth")
	var usage struct {
		Usage struct {
			Cost float64 `json:"cost_usd"`
		}
	}
	lines := strings.Split(strings.TrimSpace(res.Stdout), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &usage); err != nil || usage.Usage.Cost <= 0 {
		t.Errorf("%s, %v", lines[len(lines)-1], err)
	}
	var rows []struct {
		Tokens struct{ Cost struct{ USD float64 } }
	}
	if err := json.Unmarshal([]byte(r.OK("threads", "list", "--json").Stdout), &rows); err != nil || len(rows) != 1 || rows[0].Tokens.Cost.USD != usage.Usage.Cost {
		t.Errorf("%+v, %v; want %v", rows, err, usage.Usage.Cost)
	}
	if got := body(t, s); !strings.Contains(got, "second") || !strings.Contains(got, "third") || !strings.Contains(got, "two") {
		t.Errorf("what was said and done before the budget was reached is lost:\n%s", got)
	}
	if res := r.OK("-c", "budget.usd=5", "exec", "free"); strings.Count(res.Stderr, "cost is not known") != 1 {
		t.Errorf("the model without a price:\n%s", res.Stderr)
	}
}

// Tools that the provider runs are offered where the block asks for them and the sandbox allows what they do.
func TestHostedTools(t *testing.T) {
	t.Parallel()
	s := serve(t, "openai", vendors.Answer{Text: "without"}, vendors.Answer{Text: "with"}, vendors.Answer{Text: "again"}, vendors.Answer{Text: "network"})
	r := configured(t, block("openai", s.URL, ""))
	offered := func() bool { return strings.Contains(body(t, s), `"web_search`) }
	const search = `model.openai.hosted_tools=["web_search"]`
	if r.OK("exec", "--model", "openai", "x"); offered() {
		t.Errorf("it is offered though nobody asked for it:\n%s", body(t, s))
	}
	if r.OK("-c", search, "exec", "--model", "openai", "x"); !offered() {
		t.Errorf("it is not offered:\n%s", body(t, s))
	}
	res := r.OK("-c", search, "-c", "sandbox.mode=workspace-write", "exec", "--model", "openai", "x")
	if offered() || strings.Count(res.Stderr, `model "openai" is not offered "web_search"`) != 1 {
		t.Errorf("without network:\n%s\n%s", res.Stderr, body(t, s))
	}
	if r.OK("-c", search, "-c", "sandbox.mode=workspace-write", "-c", "sandbox.network=true", "exec", "--model", "openai", "x"); !offered() {
		t.Errorf("with network it is not offered:\n%s", body(t, s))
	}
	res = r.Gantry("-c", `model.openai.hosted_tools=["web_serch"]`, "exec", "--model", "openai", "x")
	if res.Code != 1 || !strings.Contains(res.Stderr, "Error: -c: ") || !strings.Contains(res.Stderr, `has no hosted tool "web_serch"`) || !strings.Contains(res.Stderr, `did you mean "web_search"?`) {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
}

// The provider is told how many tries are left.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	r := configured(t)
	r.OK("exec", "x")
	b, err := os.ReadFile(r.Log)
	if err != nil || !strings.Contains(string(b), `"max_attempts":12`) {
		t.Errorf("%v:\n%s", err, b)
	}
	if r.Last().Request.Messages[0].Role == llm.RoleUnknown {
		t.Error("no request")
	}
}
