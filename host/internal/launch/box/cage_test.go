//go:build linux

package box_test

import (
	"debug/elf"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/launch/box/pluginbox"
	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
)

// caged runs a script as a plugin's process and returns its output.
func (w *world) caged(cfg pluginbox.Config, namespaces bool, script string) string {
	w.t.Helper()
	out, _ := w.kept(cfg, namespaces, script, nil)
	return out
}

// kept does the same with protection against inspection by other processes, and reports whether that works.
func (w *world) kept(cfg pluginbox.Config, namespaces bool, script string, keep func() (*proc.Keep, error)) (string, bool) {
	w.t.Helper()
	s := proc.NewStarter(hclog.NewNullLogger(), namespaces)
	defer s.Close()
	pipe := func() (*os.File, *os.File) {
		r, wr, err := os.Pipe()
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { r.Close(); wr.Close() })
		return r, wr
	}
	r, wr := pipe()
	life, begin := pipe()
	p, err := s.Start(w.t.Context(), proc.Spec{
		Path: "/bin/sh", Args: []string{"-c", "read line <&3; " + script}, Dir: cfg.Own[0], Stdout: wr, Stderr: wr, Lifeline: life, Marker: "MARK=" + w.ws,
		Env: []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "OUT=" + w.out, "WS=" + w.ws, "GANTRY=" + w.home, "HOME=" + cfg.UserHome, "MARK=" + w.ws,
			"SERVICE=" + w.services(), "RELATIVE=stream", "LINKED=" + cfg.Own[0] + "/host.sock", "ABSTRACT=@" + w.services(), "DATAGRAM=" + w.services() + ".d",
			"SHARED=" + w.shared(), "NEAR=" + w.shared() + "/near"},
		Sandbox: &proc.Sandbox{Launcher: launcherPath, Box: pluginbox.New(cfg), Keep: keep, Network: cfg.Network, Late: w.late},
	})
	wr.Close()
	if err != nil {
		w.t.Fatal(err)
	}
	open := p.Open(p.PID())
	if _, err := begin.WriteString("go\n"); err != nil {
		w.t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	<-p.Gone()
	return strings.TrimSpace(string(out)), !open
}

// pluginAttempts are attempts of a plugin's process, with the expected output for a tool and for a provider.
var pluginAttempts = []struct{ name, do, tool, provider string }{
	{"gantry's keys", `cat $GANTRY/secrets/key`, "No such file", "No such file"},
	{"gantry's threads", `cat $GANTRY/threads.db`, "No such file", "No such file"},
	{"another plugin's folder", `ls $GANTRY/data`, "mine", "mine"},
	{"what the folder hides", `echo x > $GANTRY/x`, "Read-only file system", "Read-only file system"},
	{"the user's keys", `cat $HOME/.ssh/id`, "No such file", "No such file"},
	{"a vendor's keys", `cat $HOME/.aws/credentials`, "No such file", "VENDOR"},
	{"a file with a password", `test ! -s $HOME/.netrc && echo empty`, "empty", "empty"},
	{"its own folder", `echo x > $GANTRY/data/mine/x && cat $GANTRY/data/mine/x`, "x", "x"},
	{"where it is", `pwd`, "/home/data/mine", "/home/data/mine"},
	{"what it was granted", `echo x > $OUT/granted/x && echo done`, "done", "done"},
	{"to write elsewhere", `echo x > $OUT/x && echo done`, "Read-only file system", "done"},
	{"to write into a temporary folder", `echo x > /tmp/gantry-cage-test-$$ && rm /tmp/gantry-cage-test-$$ && echo done`, "done", "done"},
	{"the machine's temporary files", `ls $SHARED/theirs`, "No such file", "theirs"},
	{"what lies near it there", `cat $NEAR/script`, "NEAR", "NEAR"},
	{"shared memory", `echo x > /dev/shm/gantry-cage-test-$$ && rm /dev/shm/gantry-cage-test-$$ && echo done`, "done", "done"},
	{"the machine's shared memory", `test -z "$(ls -A /dev/shm)" && echo empty`, "empty", ""},
	{"devices", `ls /dev | tr '\n' ' '`, "fd full null random shm stderr stdin stdout tty urandom zero", ""},
	{"to make a device's name", `mkdir /dev/x 2>&1`, "Read-only file system", ""},
	{"the kernel's settings", `f=/proc/sys/kernel/core_pattern; cat $f > /dev/null && echo "$(cat $f)" > $f`, "Read-only file system", denied("Read-only file system")},
	{"the kernel's objects", `f=/sys/kernel/mm/ksm/run; if [ -e $f ]; then cat $f > $f; else echo Read-only file system; fi`, "Read-only file system", denied("Read-only file system")},
	{"other processes", `ls -d /proc/[0-9]* | grep -cv "^/proc/[0-9]$\|^/proc/[0-9][0-9]$"`, "0", ""},
	{"the keys of others", `cat /proc/keys`, "ermission denied", ""},
	{"to read elsewhere", `cat $OUT/file`, "as it was", "as it was"},
	{"the network", `python3 -c 'import socket; socket.socket(socket.AF_INET); print("done")'`, "Operation not permitted", "done"},
	{"sockets with a path", `python3 -c 'import socket; a, b = socket.socketpair(); socket.socket(socket.AF_UNIX); print("done")'`, "done", "done"},
	{"a socket of its own", `cd $GANTRY/data/mine && rm -f own && python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind("own"); s.listen(); print("done")'`, "done", "done"},
	{"a service of the machine's", connect("SOCK_STREAM", "SERVICE"), "Operation not permitted", "reached"},
	{"a service by another name", `cd $(dirname $SERVICE) && ` + connect("SOCK_STREAM", "RELATIVE"), "Operation not permitted", "reached"},
	{"its own socket, in the place of which there is a link", `ln -sf $SERVICE $GANTRY/data/mine/host.sock && ` + connect("SOCK_STREAM", "LINKED"), "Operation not permitted", "reached"},
	{"an abstract socket", connect("SOCK_STREAM", "ABSTRACT"), "Operation not permitted", "reached"},
	{"datagrams", connect("SOCK_DGRAM", "DATAGRAM"), "Operation not permitted", "reached"},
	{"datagrams of a pair", `python3 -c 'import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)'`, "Operation not permitted", ""},
	{"a machine", `python3 -c 'import socket; socket.create_connection(("127.0.0.1", 1), 1)'`, "Operation not permitted", "refused"},
	{"the kernel's ciphers", `python3 -c 'import socket; socket.socket(38, 5)'`, "Operation not permitted", "Operation not permitted"},
	{"to mount", `python3 -c 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True); print(l.umount2(os.environ["GANTRY"].encode(), 2), ctypes.get_errno())'`, "-1 1", "-1 1"},
	{"to look into its host", `cat /proc/$PPID/environ 2>&1 | head -c 40; grep -c . /proc/self/status > /dev/null && grep CapEff /proc/self/status`, "CapEff:\t0000000000000000", "CapEff:\t0000000000000000"},
	{"to get rights by another program", `grep NoNewPrivs /proc/self/status`, "NoNewPrivs:\t1", "NoNewPrivs:\t1"},
}

// madeAnew are the attempts that only namespaces stop.
var madeAnew = []string{"to write into a temporary folder", "shared memory", "devices", "other processes", "the keys of others"}

// denied returns the expected output for root; other users are denied access by file modes anyway.
func denied(says string) string {
	if os.Getuid() != 0 {
		return "ermission denied"
	}
	return says
}

// connect returns a script that connects to the socket that a variable names.
func connect(kind, variable string) string {
	return `python3 -c '
import os, socket
s = socket.socket(socket.AF_UNIX, socket.` + kind + `)
s.connect(os.environ["` + variable + `"].replace("@", chr(0)))
s.send(b"x")
print("reached")'`
}

func TestPluginAccess(t *testing.T) {
	t.Parallel()
	for _, namespaces := range []bool{true, false} {
		for _, a := range pluginAttempts {
			t.Run(map[bool]string{true: a.name, false: a.name + " without namespaces"}[namespaces], func(t *testing.T) {
				t.Parallel()
				w := prepared(t)
				top := filepath.Dir(w.ws)
				mine := filepath.Join(w.home, "data", "mine")
				for _, dir := range []string{filepath.Join(mine, "tmp"), filepath.Join(w.home, "data", "other"), filepath.Join(w.out, "granted"), filepath.Join(top, "userhome", ".aws")} {
					if err := os.MkdirAll(dir, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.WriteFile(filepath.Join(top, "userhome", ".aws", "credentials"), []byte("VENDOR"), 0o600); err != nil {
					t.Fatal(err)
				}
				cfg := pluginbox.Config{Home: w.home, UserHome: filepath.Join(top, "userhome"), Own: []string{mine}, Write: []string{filepath.Join(w.out, "granted")}, Tmp: filepath.Join(mine, "tmp"), Near: []string{w.shared() + "/near"}}
				for confined, want := range map[bool]string{true: a.tool, false: a.provider} {
					if !namespaces && (!confined || strings.Contains(want, "No such") || strings.Contains(want, "Read-only") || want == "mine" || want == "empty" || slices.Contains(madeAnew, a.name)) {
						continue // nothing is hidden there; what is refused is refused all the same
					}
					cfg.Confined = confined
					if got := w.caged(cfg, namespaces, a.do); !strings.Contains(got, want) || want == "mine" && got != want {
						t.Errorf("confined %v: %q, want %q", confined, got, want)
					}
				}
			})
		}
	}
}

// A plugin's process does not see what is denied: wherever it is, in what was granted, or in what is hidden and shown again.
func TestFilesDeniedToPlugins(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, do, says string }{
		{"somewhere", `test ! -s $OUT/secret.pem && echo empty`, "empty"},
		{"a folder", `ls -A $OUT/private | wc -l`, "0"},
		{"what lies beside it", `cat $OUT/plain`, "PLAIN"},
		{"in what was granted", `test ! -s $OUT/granted/key.pem && echo empty; cat $OUT/granted/other`, "empty\nOTHER"},
		{"in its own folder", `test ! -s $GANTRY/data/mine/own.pem && echo empty; cat $GANTRY/data/mine/kept`, "empty\nKEPT"},
		{"a folder of what was granted", `ls -A $OUT/granted/deep | wc -l`, "0"},
		{"what was granted in it", `ls -A $OUT/private/open 2>&1`, "No such file"},
		{"to uncover it", `umount $OUT/private 2>&1; ls -A $OUT/private | wc -l`, "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := prepared(t)
			mine := filepath.Join(w.home, "data", "mine")
			for path, text := range map[string]string{
				filepath.Join(mine, "own.pem"): "SECRET", filepath.Join(mine, "kept"): "KEPT", filepath.Join(w.out, "secret.pem"): "SECRET", filepath.Join(w.out, "plain"): "PLAIN",
				filepath.Join(w.out, "private", "x"): "SECRET", filepath.Join(w.out, "private", "open", "x"): "SECRET",
				filepath.Join(w.out, "granted", "key.pem"): "SECRET", filepath.Join(w.out, "granted", "other"): "OTHER", filepath.Join(w.out, "granted", "deep", "x"): "SECRET",
			} {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			denied, err := pluginbox.Denied([]string{w.out + "/**/*.pem", w.out + "/private", w.out + "/granted/deep", mine + "/own.pem"})
			if err != nil || len(denied) != 5 {
				t.Fatalf("%v, %v", denied, err)
			}
			for _, confined := range []bool{true, false} {
				got := w.caged(pluginbox.Config{
					Home: w.home, UserHome: filepath.Join(filepath.Dir(w.ws), "userhome"), Own: []string{mine}, Denied: denied, Confined: confined,
					Read: []string{filepath.Join(w.out, "granted"), filepath.Join(w.out, "private", "open")},
				}, true, tc.do)
				if !strings.Contains(got, tc.says) || strings.Contains(got, "SECRET") {
					t.Errorf("confined %v: %q, want %q", confined, got, tc.says)
				}
			}
		})
	}
}

// If Landlock is required, nothing runs without it.
func TestRequireLandlock(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		grant   launch.Grant
		version int
		ok      bool
	}{
		{launch.Grant{Mode: box.WorkspaceWrite, Landlock: true}, 0, false},
		{launch.Grant{Mode: box.ReadOnly, Landlock: true}, 0, false},
		{launch.Grant{Mode: box.ReadOnly}, 0, true},
		{launch.Grant{Mode: box.ReadOnly, Landlock: true}, 1, true},
		{launch.Grant{Mode: launch.FullAccess, DenyRead: []string{"/x"}, Landlock: true}, 0, true},
	} {
		b := box.New(box.Config{Home: t.TempDir(), Helper: "/bin/true"}).WithLandlock(tc.version)
		err := b.Check(tc.grant)
		if (err == nil) != tc.ok || err != nil && !strings.Contains(err.Error(), "no Landlock, which sandbox { require_landlock } demands") {
			t.Errorf("%+v on version %d: %v", tc.grant, tc.version, err)
		}
		var c launch.Confinement
		if release, err := b.Confine(t.Context(), tc.grant, false, &c); (err == nil) != tc.ok {
			t.Errorf("%+v on version %d is confined: %v", tc.grant, tc.version, err)
		} else if release != nil {
			release()
		}
	}
}

// closed copies a program so that it can be executed but not read.
func closed(t testing.TB, path, dir string) proc.Unreadable {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, filepath.Base(path))
	if err := os.WriteFile(name, b, 0o100); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return proc.Unreadable{File: os.NewFile(uintptr(fd), name), Path: path, Name: name, Unchanged: func() bool {
		info, err := os.Stat(name)
		return err == nil && info.Mode().Perm() == 0o100
	}}
}

// keep returns what protects a shell's process against inspection.
func (w *world) keep(own string) func() (*proc.Keep, error) {
	return func() (*proc.Keep, error) {
		shell, err := elf.Open("/bin/sh")
		if err != nil {
			return nil, err
		}
		defer shell.Close()
		image := "/bin/sh" // which has no loader
		for _, p := range shell.Progs {
			if p.Type == elf.PT_INTERP {
				b, err := io.ReadAll(p.Open())
				if err != nil {
					return nil, err
				}
				image = strings.TrimRight(string(b), "\x00")
			}
		}
		copies, stands := filepath.Join(w.home, "copies"), filepath.Join(own, "stands")
		if err := errors.Join(os.MkdirAll(copies, 0o700), os.Mkdir(stands, 0o700)); err != nil {
			return nil, err
		}
		return &proc.Keep{Launcher: closed(w.t, launcherPath, copies), Over: []proc.Unreadable{closed(w.t, image, copies)}, Stands: stands}, nil
	}
}

// Other processes can't inspect a protected process, and its access to files is unchanged.
func TestUninspectableProcess(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root can look into everything")
	}
	for _, a := range append(pluginAttempts, []struct{ name, do, tool, provider string }{
		{"who it is", "id -u", "", strconv.Itoa(os.Getuid())},
		{"its own descriptors", "ls /proc/self/fd/1", "", "/proc/self/fd/1"},
		{"where its loader is", "sh -c 'cat /proc/self/status' | grep -c CapEff", "", "1"},
	}...) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			w := prepared(t)
			mine, userHome := filepath.Join(w.home, "data", "mine"), filepath.Join(filepath.Dir(w.ws), "userhome")
			if err := errors.Join(os.MkdirAll(mine, 0o755), os.MkdirAll(filepath.Join(w.out, "granted"), 0o755), os.MkdirAll(filepath.Join(userHome, ".aws"), 0o755),
				os.WriteFile(filepath.Join(userHome, ".aws", "credentials"), []byte("VENDOR"), 0o600)); err != nil {
				t.Fatal(err)
			}
			out, closed := w.kept(pluginbox.Config{Home: w.home, UserHome: userHome, Own: []string{mine}, Write: []string{filepath.Join(w.out, "granted")}}, true, a.do, w.keep(mine))
			if !closed {
				t.Error("others of its user can look into it")
			}
			if !strings.Contains(out, a.provider) {
				t.Errorf("%q, want %q", out, a.provider)
			}
		})
	}
}

// If the user makes the files readable while a process starts, the start fails: whoever could inspect the process by then could
// stay in it.
func TestUninspectableProcessThatIsInspected(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root can look into everything")
	}
	for name, touched := range map[string]func(*proc.Keep) string{
		"the launcher": func(k *proc.Keep) string { return k.Launcher.Name },
		"the loader":   func(k *proc.Keep) string { return k.Over[0].Name },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := prepared(t)
			mine := filepath.Join(w.home, "data", "mine")
			if err := os.MkdirAll(mine, 0o755); err != nil {
				t.Fatal(err)
			}
			s := proc.NewStarter(hclog.NewNullLogger(), true)
			defer s.Close()
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			_, err = s.Start(t.Context(), proc.Spec{
				Path: "/bin/sh", Args: []string{"-c", "sleep 100"}, Dir: mine, Stdout: null, Stderr: null, Lifeline: null, Env: []string{"MARK=" + w.ws}, Marker: "MARK=" + w.ws,
				Sandbox: &proc.Sandbox{Launcher: launcherPath, Box: pluginbox.New(pluginbox.Config{Home: w.home, Own: []string{mine}}), Keep: func() (*proc.Keep, error) {
					k, err := w.keep(mine)()
					if err == nil {
						err = os.Chmod(touched(k), 0o755)
					}
					return k, err
				}},
			})
			if err == nil || !strings.Contains(err.Error(), "tried to inspect it while it was being started") {
				t.Errorf("err = %v", err)
			}
		})
	}
}
