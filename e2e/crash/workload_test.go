package crash_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// workload is what a thread does when its host dies.
type workload struct {
	name   string
	script string
	setup  func(t *testing.T, r *rig.Rig) // nil: nothing
	// drive begins the thread's life and brings it to an end, of whatever kind; nil: one task.
	drive func(p *play)
	// effects are the calls that append their id to the file "ran" when they have one.
	effects []string
	patch   bool // the call c3 turns f from before to after
	shrinks bool // outputs leave the history
	copies  bool // the thread is put away for a while, copied, and the copy deleted
	undone  bool // what c3 did may have been taken back
	// everywhere lets the host die at each point that the workload passes, also at those that others pass.
	everywhere bool
}

// play is one life of a workload's thread, up to the host's death at a point or to its end.
type play struct {
	t        *testing.T
	r        *rig.Rig
	at       pass   // where the host dies; zero: nowhere
	trace    string // beginning of the names of files that get the points; "": none do
	commands int    // that were run
	died     bool
	// said are the texts that somebody was told to be taken.
	said []string
}

// run runs one command to its end; meanwhile what a user does beside it. It does nothing when the host has died.
func (p *play) run(start func(args ...string) *rig.Run, beside func(run *rig.Run, ended <-chan struct{}), args ...string) {
	p.t.Helper()
	if p.died {
		return
	}
	p.commands++
	env := p.r.Env
	if p.trace != "" {
		p.r.Env = append(env[:len(env):len(env)], traceVariable+"="+p.traceOf(p.commands))
	}
	point := ""
	if p.at.command == p.commands {
		point = fmt.Sprintf("%s#%d", p.at.name, p.at.nth)
	}
	run := startAt(p.r, point, start, args...)
	p.r.Env = env
	ended := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		run.Wait()
		close(ended)
	})
	if beside != nil {
		beside(run, ended)
	}
	wait.Wait()
	res := run.Wait()
	p.died = res.Code == -1
	if !p.died && res.Code != 0 && beside == nil { // beside it, somebody may have stopped the turn
		p.t.Fatalf("gantry %s: exit %d\n%s\n%s", strings.Join(args, " "), res.Code, tail(res.Stdout), res.Stderr)
	}
	gone(p.t, p.r)
}

func (p *play) traceOf(command int) string { return fmt.Sprintf("%s-%d", p.trace, command) }

// task runs a command that nobody interferes with.
func (p *play) task(args ...string) { p.run(p.r.Start, nil, args...) }

// until waits for a condition; false: the run has ended before.
func until(ended <-chan struct{}, ok func() bool) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ended:
			return false
		case <-tick.C:
		}
	}
	return true
}

const theTask = "the task"

// command is a call that has its effect once: it appends its id to the file "ran". before runs first.
func command(id, before string) string {
	return fmt.Sprintf("  { call = \"exec_command\", id = %q, args = { cmd = \"touch started-%[1]s; %s echo %[1]s >> ran; echo output of %[1]s\", login = false } },\n", id, before)
}

// wanted is a rule of a model that wants each call once: what it has an output of, it does not ask for again. One that asks
// again and again all the same fails after a while.
func wanted(ids, do string) string {
	quoted := `"` + strings.ReplaceAll(ids, " ", `", "`) + `"`
	return fmt.Sprintf("[[step]]\ntimes = 9\nwhen = { no_output_of = [%s] }\ndo = [\n%s]\n", quoted, do)
}

// addCode lets a rig's model run scripts and cells of Python.
func addCode(r *rig.Rig) {
	r.Config("codemode {\n  mode = \"on\"\n}\nplugin \"python\" {\n  source = \"builtin/python\"\n}\n")
}

// cellCall and scriptCall are calls that run code; nestedPython and nestedScript is code that makes a call with one effect, as command does.
func cellCall(id, code string) string {
	return fmt.Sprintf("  { call = \"python\", id = %q, args = { code = %q } },\n", id, code)
}

func scriptCall(id, code string) string {
	return fmt.Sprintf("  { call = \"exec\", id = %q, freeform = %q },\n", id, code)
}

func nestedPython(id string) string {
	return fmt.Sprintf("gantry.tools.exec_command(cmd='touch started-%[1]s; echo %[1]s >> ran', login=False)", id)
}

func nestedScript(id string) string {
	return fmt.Sprintf("await tools.exec_command({cmd: 'touch started-%[1]s; echo %[1]s >> ran', login: false});", id)
}

const finished = "[[step]]\ntimes = -1\ndo = [{ text = \"all is done\", chunk = 1 }]\n"

// workloads are the lives that the suite ends.
func workloads() []workload {
	return []workload{
		{
			name: "calls and a patch", effects: []string{"c1", "c2", "c4", "c5"}, patch: true,
			script: script(),
			setup:  func(_ *testing.T, r *rig.Rig) { r.Write("f", "before\n") },
		},
		{
			name: "a steered turn", effects: []string{"c1", "c2"},
			script: wanted("c1", command("c1", "while [ ! -e go ]; do sleep 0.005; done;")) + wanted("c2", command("c2", "")) + finished,
			drive:  func(p *play) { beside(p, startTurn("steer 1"), startTurn("steer 2")) },
		},
		{
			name: "mail of other agents", effects: []string{"c1", "c2"},
			script: wanted("c1", command("c1", "while [ ! -e go ]; do sleep 0.005; done;")) + wanted("c2", command("c2", "")) + finished,
			drive: func(p *play) {
				beside(p, postMail("mail 1", true), postMail("mail 2", false))
			},
		},
		{
			name: "approvals", effects: []string{"c1", "c2"},
			script: wanted("c1 c2", command("c1", "")+command("c2", "")) + wanted("c1", command("c1", "")) + wanted("c2", command("c2", "")) + finished,
			setup:  func(_ *testing.T, r *rig.Rig) { r.Write("asks.hcl", "approval {\n  policy = \"untrusted\"\n}\n") },
			drive:  approve,
		},
		{
			name: "compaction", effects: []string{"c1", "c2"}, shrinks: true,
			script: "[[step]]\ntimes = 9\nwhen = { user = 'Stop here. This conversation' }\nusage = { input = 900, output = 5 }\ndo = [{ text = \"ACCOUNT of c1\" }]\n" +
				"[[step]]\ntimes = 9\nwhen = { no_output_of = [\"c1\"], absent = 'ACCOUNT of c1' }\nusage = { input = 5000, output = 20 }\ndo = [\n" +
				command("c1", "seq 1 3000;") + "]\n" + wanted("c2", command("c2", "")) + finished,
			setup: func(_ *testing.T, r *rig.Rig) { r.Config("history {\n  compact_at_tokens = 4000\n}\n") },
		},
		{
			name: "an interrupted turn", effects: []string{"c1", "c2"},
			script: wanted("c1", command("c1", "")) + wanted("c2", command("c2", "while [ ! -e go ]; do sleep 0.005; done;")) + finished,
			drive:  interrupt,
		},
		{
			name: "another model, retries and a plugin of its own", effects: []string{"k1", "c2"},
			script: "[[step]]\nwhen = { no_output_of = [\"k1\"] }\nattempts = { failures = 1, delay_ms = 1, reason = \"HTTP 500\" }\ndo = [{ call = \"craft\", id = \"k1\", args = { id = \"k1\" } }]\n" +
				wanted("k1", "{ call = \"craft\", id = \"k1\", args = { id = \"k1\" } }") + wanted("c2", command("c2", "")) +
				strings.Replace(finished, "times = -1\n", "finish = \"length\"\n", 1) + finished, // an answer that is cut off is continued
			setup: func(t *testing.T, r *rig.Rig) {
				r.Config("model \"other\" {\n  provider = \"scripted\"\n  name     = \"other\"\n}\n")
				addCrafts(t, r)
			},
			drive: func(p *play) {
				p.task("exec", "--events", theTask)
				p.task("resume", "--events", "--last", "--model", "other", "and more")
			},
		},
		{
			name: "a thread that is named, put away, taken back and copied", effects: []string{"c1"}, copies: true,
			script: wanted("c1", command("c1", "")) + finished,
			drive: func(p *play) {
				p.task("exec", "--events", theTask)
				if p.died {
					return
				}
				id := list(p.t, p.r)[0]
				p.task("threads", "name", id, "the name")
				p.task("threads", "archive", id)
				p.task("threads", "unarchive", id)
				p.task("resume", "--events", id, "and this")
				p.task("threads", "rollback", id)
				p.task("threads", "fork", id)
				if p.died {
					return
				}
				for _, other := range list(p.t, p.r) {
					if other != id {
						p.task("threads", "delete", other)
					}
				}
				p.task("threads", "fork", id)
			},
		},
		{
			name: "changes of files that are undone", effects: []string{"c1"}, patch: true, undone: true,
			script: wanted("c1", command("c1", "")) + wanted("c3", patch) + finished,
			setup:  func(_ *testing.T, r *rig.Rig) { r.Write("f", "before\n") },
			drive: func(p *play) {
				p.task("exec", "--events", theTask)
				p.task("undo")
				p.task("undo", "--redo")
				p.task("undo")
			},
		},
		{
			name: "code that calls tools", effects: []string{"c1", "c2", "c3"},
			script: wanted("c1", cellCall("c1", nestedPython("c1"))) + wanted("c2", scriptCall("c2", nestedScript("c2")+` store("k", 1)`)) +
				wanted("c3", scriptCall("c3", `yield_control(); `+nestedScript("c3"))) + wanted("w1", `  { call = "wait", id = "w1", args = { cell_id = "2" } },`) + finished,
			setup: func(_ *testing.T, r *rig.Rig) { addCode(r) },
		},
		{
			name: "calls of an MCP server", effects: []string{"c1", "c2"}, everywhere: true,
			script: wanted("c1 c2", serverCall("c1")+serverCall("c2")) + wanted("c1", serverCall("c1")) + wanted("c2", serverCall("c2")) + finished,
			setup:  addServer,
		},
		{
			name: "a large task", effects: []string{"c1"},
			// The picture must not count by its bytes, or the thread would be compacted.
			script: "[defaults]\nusage = { input = 100, output = 5 }\n" + wanted("c1", command("c1", "")) + finished,
			setup: func(t *testing.T, r *rig.Rig) {
				picture, err := noise()
				if err != nil {
					t.Fatal(err)
				}
				r.Write("noise.png", picture)
			},
			drive: func(p *play) { p.task("exec", "--events", "-i", "noise.png", theTask) },
		},
	}
}

// word is what somebody says to a thread that runs.
type word struct {
	text    string
	request string // line of JSON that says it, to THREAD
	mail    bool   // else the user says it
}

func startTurn(text string) word {
	return word{text, fmt.Sprintf(`{"id":1,"method":"gantry/thread/start","params":{"threadId":"THREAD","text":%q}}`, text), false}
}

func postMail(text string, trigger bool) word {
	return word{text, fmt.Sprintf(`{"id":1,"method":"gantry/thread/mail","params":{"threadId":"THREAD","author":"/root/other","text":%q,"triggerTurn":%v}}`, text, trigger), true}
}

// beside hands words over while the call c1 runs.
func beside(p *play, words ...word) {
	p.run(p.r.Start, func(_ *rig.Run, ended <-chan struct{}) {
		defer p.r.Write("go", "")
		if !until(ended, func() bool { return exists(p.r, "started-c1") }) {
			return
		}
		host, thread := dial(p.t, p.r)
		if host == nil {
			return
		}
		defer host.Close()
		answers := bufio.NewReader(host)
		for _, w := range words {
			w.request = strings.Replace(w.request, "THREAD", thread, 1)
			if taken(p.t, host, answers, w) {
				p.said = append(p.said, w.text)
			}
		}
	}, "exec", "--events", theTask)
}

// dial connects to the only thread that runs; nil: its host has died meanwhile.
func dial(t *testing.T, r *rig.Rig) (conn net.Conn, thread string) {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(r.Home, "run", "*-*-*-*-*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets of threads: %v, %v", sockets, err)
	}
	if conn, err = net.Dial("unix", sockets[0]); err != nil {
		return nil, ""
	}
	return conn, strings.TrimSuffix(filepath.Base(sockets[0]), ".sock")
}

// taken hands something over and tells whether the host acknowledged that the running turn gets it.
func taken(t *testing.T, host io.Writer, answers *bufio.Reader, w word) bool {
	t.Helper()
	if _, err := io.WriteString(host, w.request+"\n"); err != nil {
		return false
	}
	line, err := answers.ReadBytes('\n')
	if err != nil {
		return false
	}
	var response struct {
		Result *struct {
			Turn           string
			Steered, Began bool
		}
		Error json.RawMessage
	}
	if err := json.Unmarshal(line, &response); err == nil && response.Result != nil {
		if got := *response.Result; got.Steered || w.mail && got.Turn != "" && !got.Began {
			return true
		}
	}
	t.Fatalf("%q was handed over, and the host answers %s", w.text, line)
	return false
}

// approve says yes to every question, on a terminal.
func approve(p *play) {
	p.run(p.r.Terminal, func(run *rig.Run, ended <-chan struct{}) {
		for n := 1; until(ended, func() bool { return strings.Count(run.Output(), "answer: ") >= n }); n++ {
			run.TryType("y\n")
		}
	}, "exec", "--config", "asks.hcl", theTask)
}

// interrupt stops the turn while a call runs.
func interrupt(p *play) {
	p.run(p.r.Start, func(run *rig.Run, ended <-chan struct{}) {
		if until(ended, func() bool { return exists(p.r, "started-c2") }) {
			_ = run.Cmd.Process.Signal(os.Interrupt) // it may have died meanwhile
		}
	}, "exec", "--events", theTask)
}

// noise is a picture that no compression makes smaller: its event fills the write-ahead log, just, to where it is moved.
var noise = sync.OnceValues(func() (string, error) {
	r := rand.New(rand.NewPCG(1, 2))
	m := image.NewNRGBA(image.Rect(0, 0, 1020, 820))
	for i := range m.Pix {
		m.Pix[i] = byte(r.Uint32())
	}
	var b bytes.Buffer
	err := png.Encode(&b, m)
	return b.String(), err
})

// craftMode makes the test binary a plugin of these tests.
const craftMode = "CRASH_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(craftMode) != "" {
		tool.Main(crafts())
	}
	if os.Getenv(serverMode) != "" {
		os.Exit(serve(os.Args[1]))
	}
	var err error
	if mortalDir, err = os.MkdirTemp("", "gantry-crash-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(mortalDir)
	os.Exit(code)
}

type craftArgs struct {
	ID string `json:"id" jsonschema:"what to write down"`
}

// crafts is a plugin that stores an artifact, speaks of it, and leaves a session behind.
func crafts() tool.Plugin {
	return tool.Plugin{
		Name: "crafts", Version: "1.0.0", Description: "Makes things.",
		Tools: []tool.Tool{
			tool.New("craft", "Makes one thing.", func(ctx context.Context, c *tool.Call, in craftArgs) (*tool.Result, error) {
				ref, err := c.Artifact(ctx, "thing", "text/plain", strings.NewReader("a thing for "+in.ID))
				if err != nil {
					return nil, err
				}
				if err := c.Emit(ctx, "made", map[string]string{"sha256": ref.SHA256}, true); err != nil {
					return nil, err
				}
				f, err := os.OpenFile(filepath.Join(c.Cwd(), "ran"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
				if err != nil {
					return nil, err
				}
				if _, err := io.WriteString(f, in.ID+"\n"); err != nil {
					return nil, err
				}
				c.Thread().OpenSession("workshop", c.ID(), "the workshop")
				return tool.Text("made " + ref.SHA256), f.Close()
			}),
		},
	}
}

func addCrafts(t *testing.T, r *rig.Rig) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := r.Program("crafts", fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", craftMode, self))
	r.Config(fmt.Sprintf("plugin \"crafts\" {\n  source = %q\n  permissions {\n    write = [%q]\n    read = [%q]\n  }\n}\n", program, r.Dir, self))
	r.OK("plugin", "lock", "--yes", "crafts")
}

// serverMode makes the test binary an MCP server, whose tool appends to the file "ran" in the folder that it is started with.
const serverMode = "CRASH_SERVER"

func serve(dir string) int {
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "note", Description: "Notes one thing."}, func(_ context.Context, _ *mcp.CallToolRequest, in craftArgs) (*mcp.CallToolResult, any, error) {
		f, err := os.OpenFile(filepath.Join(dir, "ran"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, nil, err
		}
		if _, err := io.WriteString(f, in.ID+"\n"); err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "noted"}}}, nil, f.Close()
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serverCall(id string) string {
	return fmt.Sprintf("  { call = \"note\", namespace = \"mcp__notes\", id = %q, args = { id = %[1]q } },\n", id)
}

func addServer(t *testing.T, r *rig.Rig) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(r.Dir), "notes") // a server's sandbox has a /tmp of its own
	rig.CopyProgram(t, self, program, 0o755)
	r.Config(fmt.Sprintf(`plugin "mcp" {
  source = "builtin/mcp"
  config {
    server "notes" {
      command  = %q
      args     = [%q]
      env      = { %s = "1" }
      approval = "approve"
      required = true
      sandbox {
        writable_roots = [%q]
      }
    }
  }
}
`, program, r.Dir, serverMode, r.Dir))
	r.OK("plugin", "lock", "--yes", "mcp")
}
