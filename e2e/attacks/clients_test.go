package attacks_test

import (
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// clients are the rows about what clients of the app server ask for, such as an editor that a page or an extension has taken over. They have
// the user's say in threads; files and commands are bounded by the sandbox all the same.
var clients = []row{
	{id: "W1", attempt: "`fs/*`: write, make, copy over and remove what is outside, protected, or gantry's own", required: "refused", ours: "refused, with the reason", flow: clientWrites},
	{id: "W2", attempt: "the same by `..`, by links that lead there, and by links that a command has made", required: "refused", ours: "refused: paths are resolved before they are judged", flow: clientWritesByLinks},
	{id: "W3", attempt: "the same while a command replaces a folder by a link, and back", required: "nothing outside changes", ours: "nothing changes: folders are opened one by one, without following links",
		tests: []string{"host/internal/workbench TestLinksThatAppear"}},
	{id: "W4", attempt: "`fs/*`, watches and searches: keys of the user, gantry's own files, what `deny_read` names, the environment of gantry; also by links", required: "not seen",
		ours: "refused, and not found", flow: clientReads},
	{id: "W5", attempt: "`fs/*` as root: files of other users, which root's commands can't open", required: "denied", ours: "EACCES: the threads that open files have no capabilities",
		tests: []string{"host/internal/workbench TestFilesOfOtherUsers"}},
	{id: "W6", attempt: "`fs/*`: pipes, devices and sockets", required: "no hang, and nothing is read or written", ours: "refused: regular files and folders only", flow: clientOpensOddFiles},
	{id: "W7", attempt: "`command/exec`: write outside, change what is protected, reach the network, read keys", required: "denied", ours: "denied: it runs in the sandbox of the configuration", flow: clientCommands},
	{id: "W8", attempt: "`command/exec`: leave programs behind, by another session and when the connection ends", required: "ended", ours: "ended", flow: clientLeavesDaemons},
	{id: "W9", attempt: "`process/spawn`, which has no sandbox, in a workspace that has one", required: "refused", ours: "refused: it needs full access", flow: clientSpawns},
	{id: "W10", attempt: "`fs/*` and `process/spawn` through threads: in protected folders, among the user's keys, and with full access for the thread", required: "refused",
		ours: "refused: a thread's folder has the rules of the configuration, not those of the thread", flow: clientWidens},
}

// client starts an app server in a world of its own, and connects to it.
func client(t *testing.T, w *world) (*flow, *rig.Client) {
	t.Helper()
	f := newFlow(t, w, "clients-"+filepath.Base(t.Name()), "workspace-write", "never")
	f.config("sandbox {\n  deny_read = [\"**/*.env\"]\n}\n")
	f.prepare()
	c := f.AppServer(f.args...)
	c.Call("initialize", map[string]any{
		"clientInfo": map[string]any{"name": "attacker", "version": "1"}, "capabilities": map[string]any{"experimentalApi": true},
	}, nil)
	return f, c
}

// request is what a client asks for.
type request struct {
	method string
	params map[string]any
}

var evil = base64.StdEncoding.EncodeToString([]byte("evil"))

// writes are all ways to change a path. It must be in the test's own world: where a check fails, the request is carried out, and as root there
// is nothing that it would not remove.
func writes(f *flow, path string) []request {
	return []request{
		{"fs/writeFile", map[string]any{"path": path, "dataBase64": evil}},
		{"fs/writeFile", map[string]any{"path": path + "/new", "dataBase64": evil}},
		{"fs/createDirectory", map[string]any{"path": path + "/made/in"}},
		{"fs/copy", map[string]any{"sourcePath": filepath.Join(f.world.ws, "file"), "destinationPath": path}},
		{"fs/copy", map[string]any{"sourcePath": filepath.Join(f.world.ws, "sub"), "destinationPath": path + "/copied", "recursive": true}},
		{"fs/remove", map[string]any{"path": path, "force": false}},
	}
}

// refuses makes requests that must fail, and checks that nothing outside has changed.
func refuses(t *testing.T, f *flow, c *rig.Client, list []request) {
	t.Helper()
	before := f.world.snapshot(t)
	for _, r := range list {
		if m := c.Reply(c.Request(r.method, r.params)); m.Error == nil {
			t.Errorf("%s %v WORKED: %s", r.method, r.params, m.Result)
		}
	}
	if after := f.world.snapshot(t); after != before {
		t.Errorf("what lies outside has changed:\n%s\nwas:\n%s", after, before)
	}
}

func clientWrites(t *testing.T, w *world) {
	f, c := client(t, w)
	c.Call("fs/writeFile", map[string]any{"path": filepath.Join(f.world.ws, "mine"), "dataBase64": evil}, nil) // what is allowed works
	var list []request
	for _, path := range []string{
		f.world.out, filepath.Join(f.world.out, "file"), filepath.Join(f.world.user, ".ssh"), filepath.Join(f.world.user, ".netrc"), f.Home, filepath.Join(f.Home, "gantry.hcl"),
		filepath.Join(f.world.ws, ".git/hooks"), filepath.Join(f.world.ws, ".git/config"), filepath.Join(f.world.ws, "lib/.git/hooks/pre-commit"),
		filepath.Join(f.world.ws, "app/.codex/config.toml"), filepath.Join(f.world.ws, "secret.env"),
	} {
		list = append(list, writes(f, path)...)
	}
	list = append(list, request{"fs/remove", map[string]any{"path": f.world.ws}}, request{"fs/remove", map[string]any{"path": f.world.top}})
	refuses(t, f, c, list)
}

func clientWritesByLinks(t *testing.T, w *world) {
	f, c := client(t, w)
	var made struct {
		ExitCode int
		Stderr   string
	}
	script := "ln -s " + f.world.out + " sub/out; ln -s ../.git/hooks sub/hooks; ln -s " + f.world.out + "/created sub/away; ln -s " + f.Home + " sub/home; ln -s sub/out again"
	if c.Call("command/exec", map[string]any{"command": []string{"sh", "-c", script}}, &made); made.ExitCode != 0 {
		t.Fatalf("%+v", made)
	}
	var list []request
	for _, path := range []string{
		"/../out/file", "/sub/../../out/file", "/.git/../.git//hooks/./x", "/link/file", "/rel/file", "/sub/out/file", "/sub/hooks/pre-commit", "/sub/away", "/sub/home/gantry.hcl", "/again/file",
		"/sub/out/../../ws/.git/config",
	} {
		list = append(list, writes(f, f.world.ws+path)[:5]...) // to remove a link is allowed
	}
	list = append(list, request{"fs/remove", map[string]any{"path": f.world.ws + "/sub/out/file", "force": false}}, request{"fs/remove", map[string]any{"path": f.world.ws + "/link/linked", "force": false}})
	refuses(t, f, c, list)
	if exists(filepath.Join(f.world.out, "created")) {
		t.Error("a link that leads nowhere was followed")
	}
}

func clientReads(t *testing.T, w *world) {
	f, c := client(t, w)
	in := func(path string) string { return filepath.Join(f.world.top, path) }
	for from, to := range map[string]string{in("user/.ssh"): in("ws/keys"), in("ws/secret.env"): in("ws/plain"), f.Home: in("ws/home")} {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	var list []request
	for _, path := range []string{
		in("user/.ssh/id"), in("user/.netrc"), in("ws/secret.env"), in("ws/sub/LOUD.ENV"), in("ws/keys/id"), in("ws/plain"), in("ws/home/gantry.hcl"), filepath.Join(f.Home, "gantry.hcl"),
		"/proc/self/environ", "/proc/self/fd/0", "/proc/self/root" + in("user/.ssh/id"),
	} {
		list = append(list,
			request{"fs/readFile", map[string]any{"path": path}}, request{"fs/watch", map[string]any{"watchId": path, "path": path}},
			request{"fs/copy", map[string]any{"sourcePath": path, "destinationPath": in("ws/stolen")}},
		)
	}
	for _, dir := range []string{in("user/.ssh"), in("ws/keys"), f.Home, in("ws/home"), "/proc/self"} {
		list = append(list, request{"fs/readDirectory", map[string]any{"path": dir}}, request{"fuzzyFileSearch", map[string]any{"query": "id", "roots": []string{dir}}})
	}
	refuses(t, f, c, list)
	if exists(in("ws/stolen")) {
		t.Error("a key was copied")
	}
	var found struct{ Files []struct{ Path string } }
	for _, query := range []string{"secret.env", "LOUD.ENV"} {
		if c.Call("fuzzyFileSearch", map[string]any{"query": query, "roots": []string{f.world.ws}}, &found); len(found.Files) > 0 {
			t.Errorf("%s is found: %v", query, found.Files)
		}
	}
}

func clientOpensOddFiles(t *testing.T, w *world) {
	f, c := client(t, w)
	pipe := filepath.Join(f.world.ws, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(f.world.ws, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	list := []request{{"fs/readFile", map[string]any{"path": "/dev/zero"}}, {"fs/readFile", map[string]any{"path": "/dev/stdin"}}, {"fs/readFile", map[string]any{"path": "/dev/tty"}}}
	for _, path := range []string{pipe, filepath.Join(f.world.ws, "socket")} {
		list = append(list, request{"fs/readFile", map[string]any{"path": path}}, request{"fs/writeFile", map[string]any{"path": path, "dataBase64": evil}},
			request{"fs/copy", map[string]any{"sourcePath": path, "destinationPath": filepath.Join(f.world.ws, "copy")}},
			request{"fs/readDirectory", map[string]any{"path": path}})
	}
	refuses(t, f, c, list)
}

func clientCommands(t *testing.T, w *world) {
	f, c := client(t, w)
	before := f.world.snapshot(t)
	for _, script := range []string{
		"echo x > $OUT/file", "echo x > .git/hooks/pre-commit", "rm .git/config", "echo x > $HOME/.netrc", "cat $HOME/.ssh/id", "cat secret.env",
		"python3 -c 'import socket, os; socket.create_connection((\"127.0.0.1\", int(os.environ[\"PORT\"])), 5)'", "cat " + f.Home + "/gantry.hcl",
		"ln -s $OUT l && echo x > l/file", "ls " + f.Home + " | grep gantry.hcl",
	} {
		for name, params := range map[string]map[string]any{"": {}, " elsewhere": {"cwd": f.world.ws + "/sub"}, " read-only": {"permissionProfile": ":read-only"}} {
			params["command"] = []string{"sh", "-c", script}
			params["env"] = map[string]any{"OUT": f.world.out, "HOME": f.world.user}
			var r struct {
				ExitCode       int
				Stdout, Stderr string
			}
			if c.Call("command/exec", params, &r); r.ExitCode == 0 {
				t.Errorf("%s%s WORKED: %+v", script, name, r)
			}
		}
	}
	if after := f.world.snapshot(t); after != before {
		t.Errorf("what lies outside has changed:\n%s\nwas:\n%s", after, before)
	}
}

func clientLeavesDaemons(t *testing.T, w *world) {
	f, c := client(t, w)
	mark := filepath.Join(f.world.ws, "alive")
	daemon := "setsid sh -c 'while :; do echo x >> alive; sleep 0.05; done' >/dev/null 2>&1 & "
	var r struct{ ExitCode int }
	if c.Call("command/exec", map[string]any{"command": []string{"sh", "-c", daemon + "until [ -s alive ]; do sleep 0.01; done"}}, &r); r.ExitCode != 0 {
		t.Errorf("%+v", r)
	}
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	c.Request("command/exec", map[string]any{"command": []string{"sh", "-c", daemon + "sleep 600"}, "processId": "p", "disableTimeout": true})
	f.Until("the command runs", func() bool { return exists(mark) })
	c.Close()
	f.NothingLeft()
}

func clientSpawns(t *testing.T, w *world) {
	f, c := client(t, w)
	mark := filepath.Join(f.world.out, "spawned")
	m := c.Reply(c.Request("process/spawn", map[string]any{"command": []string{"touch", mark}, "processHandle": "h", "cwd": f.world.ws}))
	if m.Error == nil || !strings.Contains(m.Error.Message, "without a sandbox") {
		t.Errorf("%+v %s", m.Error, m.Result)
	}
	if exists(mark) {
		t.Error("it ran")
	}
}

func clientWidens(t *testing.T, w *world) {
	f, c := client(t, w)
	for _, dir := range []string{filepath.Join(f.world.ws, ".git/hooks"), filepath.Join(f.world.ws, "sub"), filepath.Join(f.world.user, ".ssh"), f.Home, f.world.ws} {
		// The server may refuse the thread already.
		c.Reply(c.Request("thread/start", map[string]any{"cwd": dir, "sandbox": "danger-full-access", "config": map[string]any{"sandbox.mode": "full-access"}}))
	}
	var list []request
	for _, path := range []string{
		filepath.Join(f.world.ws, ".git/hooks"), filepath.Join(f.world.ws, ".git/config"), filepath.Join(f.world.user, ".ssh"), filepath.Join(f.world.out, "file"),
		filepath.Join(f.Home, "gantry.hcl"), filepath.Join(f.world.ws, "secret.env"),
	} {
		list = append(list, writes(f, path)...)
	}
	for _, path := range []string{filepath.Join(f.world.user, ".ssh/id"), filepath.Join(f.world.ws, "secret.env"), filepath.Join(f.world.ws, "sub/LOUD.ENV"), filepath.Join(f.Home, "gantry.hcl")} {
		list = append(list, request{"fs/readFile", map[string]any{"path": path}})
	}
	list = append(list, request{"process/spawn", map[string]any{"command": []string{"touch", filepath.Join(f.world.out, "spawned")}, "processHandle": "h", "cwd": filepath.Join(f.world.ws, "sub")}})
	refuses(t, f, c, list)
}
