package attacks_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// flow is a whole run of gantry, in a world of its own, whose model wants what is put into it.
type flow struct {
	*rig.Rig
	world   *world
	args    []string
	environ []string
	steps   strings.Builder
	ids     []string
	key     string // that stands in what the provider reads from its variable
}

func newFlow(t *testing.T, w *world, name, mode, policy string) *flow {
	t.Helper()
	return newFlowOn(t, rig.New(t, ""), w, name, mode, policy)
}

func newFlowOn(t *testing.T, r *rig.Rig, w *world, name, mode, policy string) *flow {
	t.Helper()
	f := &flow{Rig: r, world: w.sub(t, name), key: providerKey}
	f.Dir = f.world.ws
	f.args = []string{"-c", "sandbox.mode=" + mode, "-c", "approval.policy=" + policy}
	f.environ = append(f.world.env(), "GANTRY_HOME="+f.Home)
	f.config("")
	return f
}

// config adds to the user's settings.
func (f *flow) config(hcl string) {
	// The script is what the provider reads from its variable, and the key stands in it.
	f.Write(filepath.Join(f.Home, "gantry.hcl"), fmt.Sprintf(`
provider "scripted" {
  source      = "builtin/scripted"
  script_text = env("PROVIDER_KEY")
  log         = %q
}

model "default" {
  provider = "scripted"
  name     = "scripted"
}
`, f.Log)+hcl)
}

// command lets the model run a command; more are further arguments, as TOML.
func (f *flow) command(id, cmd, more string) {
	f.ids = append(f.ids, id)
	fmt.Fprintf(&f.steps, "[[step]]\ndo = [{ call = \"exec_command\", id = %q, args = { cmd = %s%s } }]\n", id, quoted(cmd), more)
}

func (f *flow) call(id, cmd string) { f.command(id, cmd, ", login = false") }

func (f *flow) login(id, cmd string) { f.command(id, cmd, ", login = true") }

func (f *flow) escalated(id, cmd string) {
	f.command(id, cmd, `, login = false, sandbox_permissions = "require_escalated", justification = "it has to"`)
}

// patch lets the model apply a patch.
func (f *flow) patch(id, text string) {
	f.ids = append(f.ids, id)
	fmt.Fprintf(&f.steps, "[[step]]\ndo = [{ call = \"apply_patch\", id = %q, freeform = %s }]\n", id, quoted(text))
}

// quoted is a text as TOML writes it: JSON's way is one of its own.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(b), "\\/", "/")
}

// prepare writes the script. What the model says at the end comes again and again.
func (f *flow) prepare() {
	f.steps.WriteString("[[step]]\ntimes = -1\ndo = [{ text = \"finished\" }]\n# " + f.key + "\n")
	f.Env = append(f.environ, "PROVIDER_KEY="+f.steps.String())
}

// run runs gantry to its end, and returns what the model reads of its calls.
func (f *flow) run(t *testing.T) map[string]string {
	t.Helper()
	f.prepare()
	res := f.OK(append([]string{"exec"}, append(f.args, "go")...)...)
	return f.read(t, res)
}

// asked runs gantry on a terminal where every question is answered with the first answer, yes.
func (f *flow) asked(t *testing.T, questions int) map[string]string {
	t.Helper()
	f.prepare()
	run := f.Terminal(append([]string{"exec"}, append(f.args, "go")...)...)
	for i := range questions {
		run.SeesTimes("answer: ", i+1)
		run.Type("y\n")
	}
	res := run.Wait()
	if n := strings.Count(res.Stdout, "answer: "); res.Code != 0 || n != questions {
		t.Errorf("exit %d, %d questions, want %d:\n%s", res.Code, n, questions, res.Stdout)
	}
	return f.read(t, res)
}

func (f *flow) read(t *testing.T, res rig.Result) map[string]string {
	t.Helper()
	out := f.Last().Outputs()
	for _, id := range f.ids {
		if _, ok := out[id]; !ok {
			t.Errorf("the call %s was not answered:\n%s", strconv.Quote(id), res.Stderr)
		}
	}
	f.NothingLeft()
	return out
}
