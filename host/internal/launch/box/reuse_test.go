//go:build linux

package box_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// keeping is the configuration of a launcher whose sandboxes serve one command after another.
var keeping = launch.Config{PreparedTime: time.Hour, Proxy: nothing}

// newKeeping returns a world whose sandboxes serve one command after another.
func newKeeping(t testing.TB) *world {
	t.Helper()
	w := newWorldWith(t, keeping)
	w.fill()
	return w
}

// run runs a script, and reports whether its sandbox had served another command before.
func (w *world) run(script string) (out string, exit launch.Exit, reused bool) {
	w.t.Helper()
	p, err := w.spawn(script)
	if err != nil {
		w.t.Fatal(err)
	}
	out, exit = w.result(p)
	return out, exit, p.Reused()
}

// python returns a script that runs a Python program with the C library as c.
func python(text string) string {
	return "python3 - <<'EOF'\nimport ctypes, os, socket, time\nc = ctypes.CDLL(None, use_errno=True)\n" + text + "\nEOF"
}

// clone returns code that starts a sleeping child, with other flags of clone.
func clone(flags string) string {
	return python("nr = 56 if os.uname().machine == 'x86_64' else 220\nif c.syscall(nr, " + flags + ", 0, 0, 0, 0) == 0:\n  os.close(1)\n  os.close(2)\n  time.sleep(1000)")
}

// processes counts the processes that commands leave here.
const processes = `cat /proc/[0-9]*/comm | grep -c 'sleep\|python' || true`

// What a command leaves is gone for the next one, whether it gets the same sandbox or another.
func TestLeftoversInReusedSandbox(t *testing.T) {
	t.Parallel()
	const (
		same  = true  // nothing is left of it, and the box serves the next
		other = false // the box ends
	)
	reported, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	nice := 20 - reported // as the kernel reports it
	for _, tc := range []struct {
		name   string
		do     string
		reused bool
		look   string // the next command
		says   string
	}{
		{"nothing", `true`, same, `echo done`, "done"},
		{"a failure", `exit 3`, same, `echo done`, "done"},
		{"an end by a signal", `kill -9 $$`, same, `echo done`, "done"},
		{"children that have ended", `for i in 1 2 3; do (true) & done; wait; yes | head -1`, same, `echo done`, "done"},
		{"a process in the background", `sleep 1000 > /dev/null 2>&1 &`, other, processes, "0"},
		{"a daemon", `setsid sh -c 'setsid sleep 1000 > /dev/null 2>&1 & exit' > /dev/null 2>&1`, other, processes, "0"},
		{"a process that ignores signals", `(trap "" TERM HUP INT; sleep 1000) > /dev/null 2>&1 &`, other, processes, "0"},
		{"a child of its parent's", clone("0x8000 | 17"), other, processes, "0"},
		{"a child that ends without a signal", clone("0"), other, processes, "0"},
		{"a file in shared memory", `echo x > /dev/shm/x`, other, `ls -A /dev/shm`, ""},
		{"a file that was there for a moment", `echo x > /dev/shm/x; rm /dev/shm/x`, other, `ls -A /dev/shm`, ""},
		{"shared memory that is nobody's to use", `chmod 0700 /dev/shm`, other, `stat -c %a /dev/shm`, "1777"},
		{"something in /dev", `echo x > /dev/x; ln -sf /tmp/x /dev/stdin; rm -f /dev/fd`, same, `ls -d /dev/x /dev/fd 2>/dev/null; readlink /dev/stdin`, "/dev/fd\n/proc/self/fd/0"},
		{"System V shared memory", python("assert c.shmget(77, 4096, 0o1600) >= 0"), other, python("print(c.shmget(77, 0, 0))"), "-1"},
		{"System V semaphores", python("assert c.semget(77, 1, 0o1600) >= 0"), other, python("print(c.semget(77, 0, 0))"), "-1"},
		{"a System V message queue", python("assert c.msgget(77, 0o1600) >= 0"), other, python("print(c.msgget(77, 0))"), "-1"},
		{"a POSIX message queue", `: > /dev/mqueue/left`, other, `ls -A /dev/mqueue`, ""}, // Landlock refuses mq_open, which makes the same
		{"its environment, folder and mask", `export LEFT=x; cd /; umask 0`, same, `echo "$LEFT$(umask)"; [ "$(pwd)" = "$WS" ] && echo there`, "0022\nthere"},
		{"its own limits", `ulimit -n 17; ulimit -c 0; ulimit -f 1`, same, `[ "$(ulimit -n)" -gt 17 ] && ulimit -f`, "unlimited"},
		{"its own priority", `echo 700 > /proc/self/oom_score_adj || [ $(id -u) = 0 ]; renice -n 17 -p $$ > /dev/null`, same, `cat /proc/self/oom_score_adj; nice`, "0\n" + strconv.Itoa(nice)},
		{"the keeper's limits", `prlimit --pid 1 --nofile=33:33`, other, `[ "$(ulimit -n)" -gt 33 ] && echo more`, "more"},
		{"the keeper's priority", `renice -n 17 -p 1 > /dev/null`, other, `nice`, strconv.Itoa(nice)},
		{"the priority of all", python("assert c.setpriority(2, os.getuid(), 17) == 0"), other, `nice`, strconv.Itoa(nice)},
		{"the keeper's processors", `taskset -p 1 1 > /dev/null`, os.Getenv("GOMAXPROCS") == "1", python("print(len(os.sched_getaffinity(0)) > 0)"), "True"},
		{"what the keeper does with disks", `ionice -c 3 -p 1`, other, `ionice`, "none: prio 0"},
		{"the keeper's place in line when memory is short", `echo 700 > /proc/1/oom_score_adj || true`, same, `cat /proc/self/oom_score_adj`, "0"},
		{"a map of its namespace", `echo 0 7 1 > /proc/self/projid_map || true`, same, `cat /proc/self/projid_map`, ""},
		{"no new terminals", `chmod 000 /dev/pts/ptmx`, other, `stat -c %a /dev/pts/ptmx`, "666"},
		{"an open file", `exec 9> leftover; exec 8< /`, same, `ls /proc/self/fd | tr '\n' ' '`, "0 1 2 3"}, // ls's own folder is the fourth
		{"a terminal of its own", python("import pty\nm, s = pty.openpty()\nos.write(s, b'x')"), same, `ls /dev/pts`, "ptmx"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newKeeping(t)
			w.run("true")
			w.launcher.Ready()
			out, exit, was := w.run(tc.do)
			if !was {
				t.Error("the first command left a box of no use")
			}
			if tc.name != "a failure" && tc.name != "an end by a signal" && tc.name != "something in /dev" && exit.Code != 0 {
				t.Errorf("exit %d, %q", exit.Code, out)
			}
			w.launcher.Ready()
			out, exit, reused := w.run(tc.look)
			if out != tc.says || reused != tc.reused {
				t.Errorf("exit %d, %q, want %q; the same box: %v, want %v", exit.Code, out, tc.says, reused, tc.reused)
			}
		})
	}
}

// The keeper of a sandbox confines a command and is not confined itself.
func TestAttacksOnKeeper(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]string{
		"read its environment":      `cat /proc/1/environ`,
		"read its memory":           `head -c 1 /proc/1/mem`,
		"see its mapped memory":     `cat /proc/1/maps | grep .`,
		"see its descriptors":       `readlink /proc/1/fd/3`,
		"open its descriptors":      `true < /proc/1/fd/0`,
		"open what it executes":     `cat /proc/1/exe`,
		"go into its root":          `ls /proc/1/root/`,
		"go into its folder":        `ls /proc/1/cwd/`,
		"take a descriptor of it":   python("import sys\nsys.exit(0 if c.syscall(438, c.syscall(434, 1, 0), 3, 0) >= 0 else 1)"),
		"trace it":                  python("import sys\nsys.exit(0 if c.ptrace(16, 1, 0, 0) == 0 else 1)"),
		"move its memory":           python("import sys\nsys.exit(0 if c.syscall(256 if os.uname().machine == 'x86_64' else 238, 1, 1, ctypes.byref(ctypes.c_ulong(1)), ctypes.byref(ctypes.c_ulong(1))) == 0 else 1)"),
		"become its process group":  python("import sys\nsys.exit(0 if c.setpgid(0, 1) == 0 else 1)"),
		"write what it is reported": `echo x > /proc/1/clear_refs`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newKeeping(t)
			if out, exit, _ := w.run(do); exit.Code == 0 {
				t.Errorf("it worked: %q", out)
			}
			w.launcher.Ready()
			if out, _, reused := w.run("echo done"); out != "done" || !reused {
				t.Errorf("%q, the same box: %v", out, reused)
			}
		})
	}
}

// No signal of a command ends or stops the keeper, with or without Landlock: it is the first process of its namespace.
func TestSignalsToKeeper(t *testing.T) {
	t.Parallel()
	w := newKeeping(t)
	for _, sig := range []string{"TERM", "HUP", "INT", "QUIT", "SEGV", "ABRT", "PIPE", "USR1", "STOP", "TSTP", "KILL", "URG", "CHLD", "PROF", "RTMIN"} {
		if out, exit, _ := w.run("kill -" + sig + " 1; echo $$"); exit.Code != 0 {
			t.Errorf("%s: %q, %+v", sig, out, exit)
		}
		if n := w.launcher.Ready(); n != 1 {
			t.Errorf("%s: %d boxes wait, want one", sig, n)
		}
	}
	if out, exit, reused := w.run("echo done"); out != "done" || exit.Code != 0 || !reused {
		t.Errorf("%q, %+v, the same box: %v", out, exit, reused)
	}
}

// A sandbox is only used for the thread, the plugin and the grant that it was first used for.
func TestPreparedSandboxBelongsToAThread(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world, *launch.Spec){
		"another thread":   func(_ *world, s *launch.Spec) { s.Owner.Thread = "other" },
		"another plugin":   func(_ *world, s *launch.Spec) { s.Owner.Plugin = "other" },
		"another call":     func(_ *world, s *launch.Spec) { s.Owner.Call = "other" },
		"another network":  func(_ *world, s *launch.Spec) { s.Grant.Network = true },
		"the proxy":        func(_ *world, s *launch.Spec) { s.Grant.Proxied = true },
		"for reading":      func(_ *world, s *launch.Spec) { s.ReadOnly = true },
		"a file is opened": func(w *world, s *launch.Spec) { s.Grant.Opened = []string{filepath.Join(w.ws, ".git/config")} },
		"a new pattern":    func(w *world, s *launch.Spec) { s.Grant.DenyRead = []string{filepath.Join(w.ws, "fil*")} },
		"full access":      func(_ *world, s *launch.Spec) { s.Grant.Mode = launch.FullAccess },
		"a limit":          func(_ *world, s *launch.Spec) { s.Grant.Limits.OpenFiles = 100 },
		"a limit of all":   func(_ *world, s *launch.Spec) { s.Grant.Limits.CPUSeconds = 100 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newKeeping(t)
			w.run("true")
			w.launcher.Ready()
			s := w.spec("ulimit -n; echo done")
			change(w, &s)
			p, err := w.launcher.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			out, exit := w.result(p)
			want := name == "another call" || name == "a limit"
			if !strings.HasSuffix(out, "done") || exit.Code != 0 || p.Reused() != want {
				t.Errorf("%q, %+v, the same box: %v, want %v", out, exit, p.Reused(), want)
			}
			if name == "a limit" && out != "100\ndone" {
				t.Errorf("%q", out)
			}
		})
	}
}

// What a command has created and may be executed later is moved aside before its sandbox serves another.
func TestQuarantineInReusedSandbox(t *testing.T) {
	t.Parallel()
	w := newKeeping(t)
	w.run("true")
	w.launcher.Ready()
	w.run(`mkdir -p lib/.git/hooks && echo evil > lib/.git/hooks/post-merge && chmod +x lib/.git/hooks/post-merge && echo ref > lib/.git/HEAD && mkdir lib/.git/objects lib/.git/refs`)
	if _, err := os.Lstat(filepath.Join(w.ws, "lib/.git/hooks/post-merge")); err == nil {
		t.Error("a hook stays")
	}
}

// A sandbox with a running process serves no other command.
func TestSandboxServesOneCommandAtATime(t *testing.T) {
	t.Parallel()
	w := newKeeping(t)
	w.run("true")
	w.launcher.Ready()
	p, err := w.spawn("sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	if !p.Reused() {
		t.Error("the box was of no use")
	}
	if out, exit, reused := w.run(processes); out != "0" || exit.Code != 0 || reused {
		t.Errorf("%q, %+v, the same box: %v", out, exit, reused)
	}
	if err := p.Signal(syscall.SIGINT, true); err != nil {
		t.Error(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Signal != syscall.SIGINT {
		t.Errorf("%+v, %v", exit, err)
	}
}

// Killing a command ends its sandbox; one that ends on request does so within its grace period.
func TestEndInReusedSandbox(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ do, says string }{
		"polite":   {`trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done`, "bye"},
		"stubborn": {`trap '' TERM; echo ready; while :; do sleep 0.01; done`, "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newKeeping(t)
			for range 2 {
				p, err := w.spawn(tc.do)
				if err != nil {
					t.Fatal(err)
				}
				var out strings.Builder
				if _, err := p.Attach(t.Context(), nil, func(o launch.Output) error {
					out.Write(o.Data)
					if strings.HasPrefix(out.String(), "ready\n") && out.Len() == 6 {
						go p.KillTree(t.Context()) // the output ends with it
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				exit, err := p.Wait(t.Context())
				if err != nil || !strings.Contains(out.String(), tc.says) || (name == "polite") != (exit.Code == 7) {
					t.Errorf("%q, %+v, %v", out.String(), exit, err)
				}
				<-p.Gone()
				if out, exit, _ := w.run("echo done"); out != "done" || exit.Code != 0 {
					t.Errorf("%q, %+v", out, exit)
				}
				w.launcher.Ready()
			}
		})
	}
}

// An exit status is reported for its own command only.
func TestExitsInAKeptBox(t *testing.T) {
	t.Parallel()
	w := newKeeping(t)
	for _, tc := range []struct {
		do     string
		code   int
		signal syscall.Signal
	}{
		{"true", 0, 0}, {"exit 5", 5, 0}, {"exit 137", 137, 0}, {"kill -9 $$", 137, syscall.SIGKILL}, {"kill -SEGV $$", 139, syscall.SIGSEGV}, {"exit 255", 255, 0}, {"true", 0, 0},
	} {
		_, exit, _ := w.run(tc.do)
		if exit.Code != tc.code || exit.Signal != tc.signal {
			t.Errorf("%s: %+v", tc.do, exit)
		}
		w.launcher.Ready()
	}
	_, busy, _ := w.run("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	_, idle, reused := w.run("true")
	if !reused || idle.User >= busy.User {
		t.Errorf("after %v of processor time a command that needs none has %v; the same box: %v", busy.User, idle.User, reused)
	}
}

// A program that can't be started ends its sandbox, with the reason.
func TestFailedStartInReusedSandbox(t *testing.T) {
	t.Parallel()
	w := newKeeping(t)
	for name, change := range map[string]func(*launch.Spec){
		"no such program":   func(s *launch.Spec) { s.Argv = []string{"no-such-program"} },
		"no such file":      func(s *launch.Spec) { s.Argv = []string{"/no/such/program"} },
		"no program":        func(s *launch.Spec) { s.Argv = []string{"/etc/passwd"} },
		"no such folder":    func(s *launch.Spec) { s.Cwd = "/no/such/folder" },
		"too many in total": func(s *launch.Spec) { s.Argv = append(s.Argv, strings.Repeat("x", 200<<10)) },
	} {
		w.run("true")
		w.launcher.Ready()
		s := w.spec("true")
		change(&s)
		if _, err := w.launcher.Spawn(t.Context(), s); err == nil {
			t.Errorf("%s: it runs", name)
		}
		if out, exit, _ := w.run("echo done"); out != "done" || exit.Code != 0 {
			t.Errorf("%s: %q, %+v", name, out, exit)
		}
	}
}

// If its launcher, its bubblewrap or its keeper is killed, a sandbox ends.
func TestReusedSandboxEndsWithItsParents(t *testing.T) {
	t.Parallel()
	for depth, name := range []string{"keeper", "bubblewrap", "launcher"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newKeeping(t)
			w.run("true")
			w.launcher.Ready()
			p, err := w.spawn("sleep 1000 & sleep 1000")
			if err != nil {
				t.Fatal(err)
			}
			victim := p.PID()
			for range depth + 1 {
				victim = parentOf(t, victim)
			}
			if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if exit, err := p.Wait(t.Context()); err != nil || exit.Signal != syscall.SIGKILL || !p.Reused() {
				t.Errorf("%+v, %v; the same box: %v", exit, err, p.Reused())
			}
			<-p.Gone()
			for syscall.Kill(p.PID(), 0) == nil { // until the kernel has ended it
				if t.Context().Err() != nil {
					t.Fatal("it still runs")
				}
			}
		})
	}
}

// A sandbox whose keeper was killed while idle is not used.
func TestKeeperKilledWhileIdle(t *testing.T) {
	t.Parallel()
	w := newKeeping(t)
	p, err := w.spawn("true")
	if err != nil {
		t.Fatal(err)
	}
	w.result(p)
	w.launcher.Ready()
	p, err = w.spawn("exec sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	keeper := parentOf(t, p.PID())
	if err := p.Signal(syscall.SIGKILL, false); err != nil {
		t.Fatal(err)
	}
	w.result(p)
	w.launcher.Ready()
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", keeper)); err != nil {
			break
		}
	}
	if out, exit, reused := w.run("echo done"); out != "done" || exit.Code != 0 || reused {
		t.Errorf("%q, %+v, the same box: %v", out, exit, reused)
	}
}

// Landlock keeps commands from inspecting the keeper; without it the kernel does.
func TestKeeperCannotBeInspected(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("what the kernel reserves for root has the same owner then")
	}
	w := newKeeping(t)
	p, err := w.spawn("exec sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(fmt.Sprintf("/proc/%d/environ", parentOf(t, p.PID())))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 0 {
		t.Errorf("what the kernel knows of the keeper is user %d's, want root's", uid)
	}
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	n, err := strconv.Atoi(f[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
