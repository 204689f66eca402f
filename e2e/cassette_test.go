package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// keyless takes the key out of a rig's environment.
func keyless(r *rig.Rig) {
	var env []string
	for _, kv := range r.Env {
		if !strings.HasPrefix(kv, "VENDOR_KEY=") {
			env = append(env, kv)
		}
	}
	r.Env = env
}

// transcript is what the newest thread is to its model, and how often its stream broke, without what is different each time.
func transcript(t *testing.T, r *rig.Rig) string {
	t.Helper()
	var out strings.Builder
	for _, e := range rig.Events(t, r.OK("threads", "export", last(t, r)).Stdout) {
		switch e.Kind {
		case "history.added":
			fmt.Fprintf(&out, "%s\n", e.Body)
		case "stream.retried":
			out.WriteString("asked again\n")
		}
	}
	text := threadID.ReplaceAllString(out.String(), "<id>")
	text = regexp.MustCompile(`Chunk ID: [0-9a-f]+`).ReplaceAllString(text, "Chunk ID: <id>")
	return regexp.MustCompile(`Wall time: [0-9.]+`).ReplaceAllString(text, "Wall time: 0")
}

// A run that was recorded can be had again when the vendor is gone and there is no key: a failure before the answer, parallel
// calls of two plugins, an answer that breaks off, reasoning, a picture. The user sees the same.
func TestRecordAndReplay(t *testing.T) {
	for vendor := range vendorBlocks {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := vendors.New(t, vendor,
				vendors.Answer{Fail: 503},
				vendors.Answer{Reasoning: "Two at once.", Text: "One moment.", Calls: []vendors.Call{
					onDesk("lookup", "gantry"), {Name: "exec_command", Args: map[string]any{"cmd": "cat a", "login": false}},
				}},
				vendors.Answer{Text: "There is a picture, too.", Cut: true},
				vendors.Answer{Reasoning: "Look at it.", Calls: []vendors.Call{onDesk("picture", "crane")}},
				vendors.Answer{Text: "Alpha, and a crane."},
			)
			h := httptest.NewServer(s)
			r := rig.New(t, "")
			useVendor(r, vendor, h.URL)
			addOdd(t, r, "desk", "desk", "")
			r.Write("a", "alpha\n")
			recorded := r.OK("exec", "--record", "run.json", "what is there?")
			was := transcript(t, r)
			h.CloseClientConnections()
			h.Close()
			asked := len(s.Requests())

			file := r.Read("run.json")
			if strings.Contains(file, vendors.Key) {
				t.Error("the key is in the recording")
			}
			if n := strings.Count(file, `"transport": "http"`); n < asked {
				t.Errorf("%d interactions of %d are recorded", n, asked)
			}
			keyless(r)
			replayed := r.OK("exec", "--replay", "run.json", "what is there?")
			if is := transcript(t, r); was != is {
				a, b := around(was, is)
				t.Errorf("recorded\n%s\nreplayed\n%s", a, b)
			}
			if recorded.Stdout != replayed.Stdout || !strings.Contains(replayed.Stdout, "Alpha, and a crane.") {
				t.Errorf("recorded\n%s\nreplayed\n%s", recorded.Stdout, replayed.Stdout)
			}

			// Another task was not recorded, and the difference is named. Nobody is asked instead.
			res := r.Gantry("exec", "--replay", "run.json", "what is not there?")
			if want := "what is not there?"; res.Code != 1 || !strings.Contains(res.Stderr, "no unused match in "+filepath.Join(r.Dir, "run.json")) ||
				!strings.Contains(res.Stderr, want) {
				t.Errorf("exit %d\n%s", res.Code, res.Stderr)
			}
			if len(s.Requests()) != asked {
				t.Error("the vendor was asked again")
			}
		})
	}
}

// What looks like a secret is not recorded: the request that would hold it is not sent.
func TestASecretIsNotRecorded(t *testing.T) {
	t.Parallel()
	s := vendors.Start(t, "anthropic", vendors.Answer{Calls: []vendors.Call{
		{Name: "exec_command", Args: map[string]any{"cmd": "cat credentials", "login": false}},
	}})
	r := rig.New(t, "")
	useVendor(r, "anthropic", s.URL)
	r.Config("secrets {\n  redact_patterns = false\n}\n") // what is taken out is no secret any more
	const secret = "AKIA" + "ABCDEFGHIJKLMNOP"
	r.Write("credentials", "aws_access_key_id = "+secret+"\n")
	res := r.Gantry("exec", "--record", "run.json", "read the file")
	if res.Code != 1 || !strings.Contains(res.Stderr, "can't be recorded: the request's body, at messages[2].content[0].content contains what looks like an AWS access key") {
		t.Errorf("exit %d\n%s", res.Code, res.Stderr)
	}
	if file := r.Read("run.json"); strings.Contains(file, secret) || strings.Count(file, `"transport"`) != 1 {
		t.Errorf("recorded:\n%s", file)
	}
	if _, text, _ := strings.Cut(res.Stderr, "can't be recorded"); strings.Contains(text, secret) {
		t.Errorf("the error shows it:\n%s", res.Stderr)
	}
}

// An answer with one was paid for, so it is shown. That the recording lacks it is said.
func TestASecretInTheLastAnswer(t *testing.T) {
	t.Parallel()
	const secret = "AKIA" + "ABCDEFGHIJKLMNOP"
	s := vendors.Start(t, "openai-chat", vendors.Answer{Calls: []vendors.Call{onDesk("lookup", "key")}}, vendors.Answer{Text: "It is " + secret})
	r := rig.New(t, "")
	useVendor(r, "openai-chat", s.URL)
	onlyDesk(t, r)
	res := r.OK("exec", "--record", "run.json", "which key?")
	if !strings.Contains(res.Stdout, secret) {
		t.Errorf("stdout %s", res.Stdout)
	}
	if want := "an exchange was not recorded in " + filepath.Join(r.Dir, "run.json"); !strings.Contains(res.Stderr, want) {
		t.Errorf("stderr lacks %q:\n%s", want, res.Stderr)
	}
	if file := r.Read("run.json"); strings.Contains(file, secret) || !strings.Contains(file, `"lookup"`) {
		t.Errorf("recorded:\n%s", file)
	}
}

// A block can name the recording, too; a path starts where the block stands. Where CI=true is set it is replayed.
func TestRecordInTheBlock(t *testing.T) {
	t.Parallel()
	s := vendors.Start(t, "openai-responses", vendors.Answer{Text: "Once."})
	r := rig.New(t, "")
	useVendor(r, "openai-responses", s.URL, `  record = "tapes/run.json"`)
	if err := os.Mkdir(filepath.Join(r.Home, "tapes"), 0o700); err != nil {
		t.Fatal(err)
	}
	ci := r.Env
	r.Env = append(ci[:len(ci):len(ci)], "CI=true")
	res := r.Gantry("exec", "hello")
	if res.Code != 1 || !strings.Contains(res.Stderr, "none is created if CI=true") || !strings.Contains(res.Stderr, "gantry.hcl:") {
		t.Errorf("nothing is recorded yet: exit %d\n%s", res.Code, res.Stderr)
	}
	r.Env = ci
	if out := r.OK("exec", "hello").Stdout; !strings.Contains(out, "Once.") {
		t.Errorf("stdout %s", out)
	}
	r.Env = append(ci[:len(ci):len(ci)], "CI=true")
	if out := r.OK("exec", "hello").Stdout; !strings.Contains(out, "Once.") {
		t.Errorf("replayed: %s", out)
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("the vendor was asked %d times", n)
	}
	var tape struct{ Version int }
	b, err := os.ReadFile(filepath.Join(r.Home, "tapes", "run.json"))
	if err != nil || json.Unmarshal(b, &tape) != nil || tape.Version != 1 {
		t.Errorf("%v\n%s", err, b)
	}
}
