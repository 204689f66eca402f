package attacks_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// peers are the rows about who may speak for the user on a thread's run socket, and to the app server.
var peers = []row{
	{id: "E16", attempt: "under full access, connect to the thread's run socket and answer the question about the next command", required: "refused", codex: "",
		ours: "refused: processes started by the host can read, not act", flow: answersItself(`s = connect()`), tests: []string{"host/internal/proctree TestContains"}},
	{id: "E17", attempt: "the same from a daemon in a session of its own, whose parents have ended", required: "refused", codex: "", ours: "refused: gantry-launch adopts orphans",
		flow: answersItself(`
r, wr = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0: os._exit(0)
    adopter = int(os.read(r, 20))
    while os.getppid() != adopter: pass
else:
    os.wait()
    os.write(wr, str(os.getppid()).encode())
    import time
    time.sleep(600)
s = connect()`), tests: []string{"host/internal/threadsocket TestFamilyMayOnlyLook"}},
	{id: "E18", attempt: "the same with commands of the user's (`gantry/thread/shell`), settings, tasks, another plugin", required: "refused", codex: "", ours: "refused", flow: answersItself(`s = connect()`)},
	{id: "E19", attempt: "the same from a daemon that has killed its `gantry-launch`", required: "refused", codex: "", ours: "refused: gantry itself adopts what a killed launcher leaves",
		flow: killsItsLauncher, tests: []string{"host/internal/launch TestDaemonOfAKilledLauncherIsAdopted"}},
	{id: "E20", attempt: "a web page connects to the app server on loopback", required: "refused", codex: "refused", ours: "403: `Origin` is refused",
		tests: []string{"e2e TestAppServerRefusesHandshakes"}},
	{id: "E21", attempt: "a web page whose name is pointed at loopback does so (DNS rebinding)", required: "refused", codex: "", ours: "403: `Host` must be the address that the server listens on",
		tests: []string{"e2e TestAppServerRefusesHandshakes", "host/internal/appserver/transport TestRequests"}},
	{id: "E22", attempt: "connect to the app server on loopback without a token, or with a wrong one", required: "refused", codex: "connected: loopback needs no token", escaped: true, ours: "401",
		tests: []string{"e2e TestAppServerRefusesHandshakes", "host/internal/appserver/transport TestCapabilityToken"}},
	{id: "E23", attempt: "a command connects to the app server and answers its own question, starts, steers or interrupts turns, changes settings, writes files", required: "refused",
		codex: "answered: every connection may answer", escaped: true, ours: "refused, with the token as well: processes started by the host can read, not act",
		tests: []string{"e2e TestAppServerLaunchedClient", "host/internal/appserver/transport TestLaunchedClient"}},
	{id: "E24", attempt: "another user connects to the app server's socket, to which its owner has opened the path", required: "refused", codex: "", ours: "refused: the kernel says who connects",
		tests: []string{"host/internal/appserver/transport TestOtherUser"}},
	{id: "E25", attempt: "keep the app server from serving others: handshakes that are oversized, slow, never complete, or many", required: "bounded", codex: "",
		ours: "431, closed after 10 s, at most 256 at the same time", tests: []string{"e2e TestAppServerRefusesHandshakes", "host/internal/appserver/transport TestSlowHandshakes", "host/internal/appserver/transport TestTooManyClients"}},
	{id: "E26", attempt: "the same by messages: garbage, half a message, 100 MB, batches, 10,000 requests, answers that are never read", required: "no effect on others", codex: "",
		ours: "no effect on others", tests: []string{"e2e TestAppServerHostileClients", "host/internal/rpc TestAReaderThatStopsCostsAtMost8MiB"}},
	{id: "E27", attempt: "reach files outside the workspace through `fs/*`: `..`, symbolic links, links that appear during the call", required: "refused", codex: "", ours: "refused",
		tests: []string{"host/internal/workbench TestReadFile", "host/internal/workbench TestWriteFile", "host/internal/workbench TestLinksThatAppear"}},
	{id: "E28", attempt: "a command watches a session through the app server, takes control of it, or connects for the frames of a view whose path it has found", required: "refused",
		codex: "", ours: "refused, with the token as well", tests: []string{"e2e TestAppServerLaunchedClient", "host/internal/appserver TestFramesOnce", "host/internal/appserver/transport TestConnectionsForFrames", "host/internal/threadsocket TestFamilyMayOnlyLook"}},
	{id: "E29", attempt: "a command answers a call of a client's tool, or makes the thread count on it for such calls", required: "refused",
		codex: "", ours: "refused, with the token as well: the call waits for the client", tests: []string{"e2e TestAppServerLaunchedClient", "host/internal/threadsocket TestFamilyMayOnlyLook"}},
	{id: "E30", attempt: "a command prints a secret that gantry knows, at once or in pieces, to a terminal that a person watches", required: "not shown",
		codex: "", ours: "masked, but for up to three bytes where it is split", tests: []string{"e2e TestViewOfWhatWasThere", "host/internal/redact TestMaskOfPieces", "host/internal/view TestSecretInFrames"}},
	{id: "E31", attempt: "a web page, or a page whose name is pointed at loopback, or a client without the token uses `gantry mcp serve` over HTTP", required: "refused", codex: "", ours: "403 and 401, as by the app server",
		tests: []string{"e2e TestMCPHTTPRefuses"}},
	{id: "E32", attempt: "a command of an agent uses it, with the token, to start an agent without a sandbox", required: "refused", codex: "", ours: "403: processes started by the host can't use it",
		tests: []string{"e2e TestMCPHTTPLaunchedClient"}},
	{id: "E33", attempt: "an MCP client that can't ask its user starts an agent that needs approvals", required: "refused", codex: "", ours: "refused at once, with the reason in the result",
		tests: []string{"e2e TestMCPRefusals"}},
}

// answersItself lets a command that a rule allows try to say yes to the next one. begin is how it comes to its connection.
func answersItself(begin string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		f := newFlow(t, w, "peers-"+filepath.Base(t.Name()), "full-access", "untrusted")
		f.Write(filepath.Join(f.Home, "rules", "my.rules"), "prefix_rule(pattern=[\"python3\"])\n")
		trace, said := filepath.Join(f.world.out, "answered"), filepath.Join(f.world.top, "said-"+filepath.Base(t.Name()))
		script := filepath.Join(f.world.top, "peer.py")
		f.Write(script, fmt.Sprintf(`
import glob, json, os, socket
home, trace, said, lines = %q, %q, %q, []
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(glob.glob(home + "/run/*.sock")[0])
    return s
thread = os.path.basename(glob.glob(home + "/run/*.sock")[0])[:-5]
%s
f = s.makefile("rw")
n = 0
def ask(method, **params):
    global n
    n += 1
    f.write(json.dumps({"id": n, "method": method, "params": dict(params, threadId=thread)}) + "\n")
    f.flush()
    while True:
        m = json.loads(f.readline())
        if m.get("id") == n:
            return m
for method, params in [("gantry/thread/ping", {}), ("gantry/thread/shell", {"command": "touch " + trace}), ("gantry/thread/configure", {"approval": "never"}),
        ("gantry/thread/start", {"text": "x"}), ("gantry/thread/steer", {"text": "x"}), ("gantry/thread/reloadPlugin", {"plugin": "shell", "path": trace}), ("gantry/thread/subscribe", {"after": 0, "attend": True, "subscription": 1})]:
    a = ask(method, **params)
    lines.append(method + (" REFUSED" if "error" in a and "was started by the gantry" in a["error"]["message"] else " let in"))
with open(said + ".new", "w") as out: out.write("\n".join(lines + ["ready"]))
os.rename(said + ".new", said)
for line in f:
    m = json.loads(line)
    body = m.get("params", {})
    if m.get("method") == "gantry/thread/event" and "question.asked" in line:
        print(line, flush=True)
        event = body.get("body") or body.get("data") or body
        ident = json.loads(line[line.index('{"id"'):].split(",")[0] + "}")["id"] if '{"id"' in line else event["id"]
        f.write(json.dumps({"id": 99, "method": "gantry/thread/answer", "params": {"threadId": thread, "id": ident, "choice": "approve"}}) + "\n")
        f.flush()
`, f.Home, trace, said, begin))
		waits := filepath.Join(f.world.top, "waits.py")
		f.Write(waits, fmt.Sprintf(waitFor, said))
		f.command("c1", "python3 "+script, ", login = false, yield_time_ms = 250")
		f.call("c2", "python3 "+waits)
		f.call("c3", "touch "+trace)
		out := f.run(t)
		if !strings.Contains(out["c2"], "gantry/thread/ping let in") || strings.Count(out["c2"], "REFUSED") != 6 || !strings.Contains(out["c2"], "ready") {
			t.Errorf("%s", out["c2"])
		}
		if exists(trace) {
			t.Errorf("it has answered itself: %q", out)
		}
	}
}

// waitFor is a program that prints a file once it is there, or fails after a minute.
const waitFor = "import os, time\nfor _ in range(6000):\n    if os.path.exists(%[1]q): break\n    time.sleep(0.01)\nprint(open(%[1]q).read())\n"

// killsItsLauncher lets a command that a rule allows leave a daemon, which kills the process that watches it before it speaks up.
func killsItsLauncher(t *testing.T, w *world) {
	f := newFlow(t, w, "peers-kills", "full-access", "untrusted")
	f.Write(filepath.Join(f.Home, "rules", "my.rules"), "prefix_rule(pattern=[\"python3\"])\n")
	trace, said := filepath.Join(f.world.out, "answered"), filepath.Join(f.world.top, "said")
	script := filepath.Join(f.world.top, "peer.py")
	f.Write(script, fmt.Sprintf(`
import glob, json, os, socket, time
home, trace, said = %q, %q, %q
if os.fork() == 0:
    os.setsid()
    first = os.getpid()
    if os.fork() != 0: os._exit(0)
    for fd in range(3): os.dup2(os.open("/dev/null", os.O_RDWR), fd)
    while os.getppid() == first: pass
    launcher = os.getppid()
    os.kill(launcher, 9)
    while os.getppid() == launcher: pass
    s = socket.socket(socket.AF_UNIX)
    path = glob.glob(home + "/run/*.sock")[0]
    s.connect(path)
    thread = os.path.basename(path)[:-5]
    f = s.makefile("rw")
    f.write(json.dumps({"id": 1, "method": "gantry/thread/shell", "params": {"threadId": thread, "command": "touch " + trace}}) + "\n")
    f.flush()
    answer = f.readline()
    with open(said + ".new", "w") as out: out.write(answer)
    os.rename(said + ".new", said)
    os._exit(0)
time.sleep(600)
`, f.Home, trace, said))
	waits := filepath.Join(f.world.top, "waits.py")
	f.Write(waits, fmt.Sprintf(waitFor, said))
	f.call("c1", "python3 "+script)
	f.call("c2", "python3 "+waits)
	out := f.run(t)
	if !strings.Contains(out["c2"], "was started by the gantry") || exists(trace) {
		t.Errorf("it was let in: %q", out)
	}
}
