//go:build linux

package box_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
)

// caged runs a script as a plugin's process and returns what it says.
func (w *world) caged(cfg box.CageConfig, namespaces bool, script string) string {
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
	life, _ := pipe()
	p, err := s.Start(w.t.Context(), proc.Spec{
		Path: "/bin/sh", Args: []string{"-c", script}, Dir: cfg.Own[0], Stdout: wr, Stderr: wr, Lifeline: life, Marker: "MARK=" + w.ws,
		Env:  []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "OUT=" + w.out, "WS=" + w.ws, "GANTRY=" + w.home, "HOME=" + cfg.UserHome, "MARK=" + w.ws},
		Cage: &proc.Cage{Launcher: launcherPath, Box: box.Cage(cfg)},
	})
	wr.Close()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	<-p.Gone()
	return strings.TrimSpace(string(out))
}

// pluginAttempts are what a tool plugin may try by itself, and a provider, and what must come of it.
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
	{"to write elsewhere", `echo x > $OUT/x && echo done`, "Permission denied", "done"},
	{"to write into a temporary folder", `echo x > /tmp/gantry-cage-test && rm /tmp/gantry-cage-test && echo done`, "Permission denied", "done"},
	{"to read elsewhere", `cat $OUT/file`, "as it was", "as it was"},
	{"the network", `python3 -c 'import socket; socket.socket(socket.AF_INET); print("done")'`, "Operation not permitted", "done"},
	{"sockets with a path", `python3 -c 'import socket; a, b = socket.socketpair(); socket.socket(socket.AF_UNIX); print("done")'`, "done", "done"},
	{"the kernel's ciphers", `python3 -c 'import socket; socket.socket(38, 5)'`, "Operation not permitted", "Operation not permitted"},
	{"to mount", `python3 -c 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True); print(l.umount2(os.environ["GANTRY"].encode(), 2), ctypes.get_errno())'`, "-1 1", "-1 1"},
	{"to look into its host", `cat /proc/$PPID/environ 2>&1 | head -c 40; grep -c . /proc/self/status > /dev/null && grep CapEff /proc/self/status`, "CapEff:\t0000000000000000", "CapEff:\t0000000000000000"},
	{"to get rights by another program", `grep NoNewPrivs /proc/self/status`, "NoNewPrivs:\t1", "NoNewPrivs:\t1"},
}

func TestWhatAPluginMayDo(t *testing.T) {
	t.Parallel()
	for _, namespaces := range []bool{true, false} {
		for _, a := range pluginAttempts {
			t.Run(map[bool]string{true: a.name, false: a.name + " without namespaces"}[namespaces], func(t *testing.T) {
				t.Parallel()
				w := prepared(t)
				top := filepath.Dir(w.ws)
				mine := filepath.Join(w.home, "data", "mine")
				for _, dir := range []string{mine, filepath.Join(w.home, "data", "other"), filepath.Join(w.out, "granted"), filepath.Join(top, "userhome", ".aws")} {
					if err := os.MkdirAll(dir, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.WriteFile(filepath.Join(top, "userhome", ".aws", "credentials"), []byte("VENDOR"), 0o600); err != nil {
					t.Fatal(err)
				}
				cfg := box.CageConfig{Home: w.home, UserHome: filepath.Join(top, "userhome"), Own: []string{mine}, Write: []string{filepath.Join(w.out, "granted")}}
				for confined, want := range map[bool]string{true: a.tool, false: a.provider} {
					if !namespaces && (!confined || strings.Contains(want, "No such") || strings.Contains(want, "Read-only") || want == "mine" || want == "empty") {
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

// What is denied is not seen by a plugin's own process, wherever it lies: in nothing, in what was granted, in what is hidden and shown
// again.
func TestWhatIsDeniedToPlugins(t *testing.T) {
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
			denied, err := box.Denied([]string{w.out + "/**/*.pem", w.out + "/private", w.out + "/granted/deep", mine + "/own.pem"})
			if err != nil || len(denied) != 5 {
				t.Fatalf("%v, %v", denied, err)
			}
			for _, confined := range []bool{true, false} {
				got := w.caged(box.CageConfig{
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

// Where Landlock is demanded nothing runs in a box without it.
func TestLandlockIsDemanded(t *testing.T) {
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
