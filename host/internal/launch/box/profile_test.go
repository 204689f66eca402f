package box_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/launch/box/pluginbox"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt/seatbelttest"
)

// mac is a machine whose boxes are profiles.
type mac struct {
	t    testing.TB
	dir  string // where its files are, without links
	box  *box.Sandbox
	home string
}

func newMac(t testing.TB, files ...string) *mac {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &mac{t: t, dir: dir, home: filepath.Join(dir, "u/.gantry")}
	m.make(append([]string{"u/.gantry/plugins/p", "u/.gantry/secrets/key", "u/.ssh/id", "u/.netrc", "u/Library/Keychains/login", "ws/", "tmp/"}, files...)...)
	m.box = box.NewSeatbelt(box.Config{Home: m.home, UserHome: filepath.Join(dir, "u"), Helper: seatbelt.Program})
	t.Cleanup(func() { _ = m.box.Close() })
	return m
}

// make makes files, and folders, which end with a slash.
func (m *mac) make(files ...string) {
	m.t.Helper()
	for _, f := range files {
		p := filepath.Join(m.dir, f)
		folder := p
		if !strings.HasSuffix(f, "/") {
			folder = filepath.Dir(p)
		}
		err := os.MkdirAll(folder, 0o755)
		if err == nil && folder != p {
			err = os.WriteFile(p, []byte("x"), 0o644)
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *mac) path(p string) string { return filepath.Join(m.dir, p) }

func (m *mac) paths(ps ...string) []string {
	var out []string
	for _, p := range ps {
		out = append(out, m.path(p))
	}
	return out
}

// confine returns what judges the box of a grant.
func (m *mac) confine(g launch.Grant) (*seatbelttest.Judge, *launch.Confinement) {
	m.t.Helper()
	c := &launch.Confinement{Argv: []string{"true"}, Cwd: "/", Launcher: "/opt/gantry/gantry-launch"}
	release, err := m.box.Confine(m.t.Context(), g, false, c)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(release)
	var p seatbelt.Profile
	for i := 0; i+1 < len(c.Box.Args); i += 2 {
		switch v := c.Box.Args[i+1]; c.Box.Args[i] {
		case "-p":
			p.Text = v
		case "-D":
			name, value, _ := strings.Cut(v, "=")
			p.Parameters = append(p.Parameters, seatbelt.Parameter{Name: name, Value: value})
		default:
			m.t.Fatalf("argument %q", c.Box.Args[i])
		}
	}
	return seatbelttest.New(m.t, p), c
}

// expect compares what can be done with paths: "", "r" or "rw".
func (m *mac) expect(j *seatbelttest.Judge, want map[string]string) {
	m.t.Helper()
	for p, w := range want {
		path, got := p, ""
		if !strings.HasPrefix(p, "/") {
			path = m.path(p)
		}
		if j.Reads(path) {
			got = "r"
		}
		if j.Writes(path) {
			got += "w"
		}
		if got != w {
			m.t.Errorf("%s: %q, want %q", p, got, w)
		}
	}
}

func TestProfileOfWorkspaceWrite(t *testing.T) {
	t.Parallel()
	m := newMac(t, "ws/.git/config", "ws/sub/.git/config", "ws/sub/.git/hooks/post-commit", "ws/sub/x", "out/file")
	g := launch.Grant{Mode: box.WorkspaceWrite, WritableRoots: m.paths("ws"), Tmp: m.path("tmp")}
	j, c := m.confine(g)
	m.expect(j, map[string]string{
		"ws": "rw", "ws/new": "rw", "ws/sub/x": "rw", "tmp/x": "rw", "out/file": "r", "/etc/passwd": "r", "/usr/bin/true": "r", "/opt/gantry/gantry-launch": "r",
		"ws/.git": "r", "ws/.git/config": "r", "ws/.GIT/hooks/x": "r", "ws/.gi\u200ct": "r", "ws/.codex": "r", "ws/.Agents/x": "r", "ws/.gantry/x": "r", "ws/.aws": "r",
		"ws/.gitignore": "rw", "ws/.github/x": "rw", "ws/sub/.git/config": "r", "ws/sub/.git/hooks/new": "r", "ws/sub/.git/index": "rw",
		"u/.ssh/id": "", "u/.netrc": "", "u/Library/Keychains/login": "", "u/.gantry/secrets/key": "", "u/.gantry/plugins/p": "r", "u/other": "r",
		"/private/tmp/x": "", "/private/var/run/docker.sock": "", "/private/var/run/resolv.conf": "r", "/private/etc/master.passwd": "", "/dev/null": "rw",
	})
	for p, want := range map[string]bool{"ws/sub": false, "ws/sub/.git": false, "ws/sub/x": true, "ws/other": true, "ws/.git": false} {
		if got := j.Removes(m.path(p), true); got != want {
			t.Errorf("%s can be renamed: %v", p, got)
		}
	}
	if j.Allows("network-outbound", seatbelttest.Subject{Remote: "ip 10.0.0.1:80"}) {
		t.Error("there is a network")
	}
	for _, want := range []string{"GANTRY_SANDBOX=workspace-write", "GANTRY_SANDBOX_NETWORK_DISABLED=1", "TMPDIR=" + m.path("tmp")} {
		if !slices.Contains(c.Env, want) {
			t.Errorf("%s is missing from %q", want, c.Env)
		}
	}
	if c.Box.Helper != seatbelt.Program || c.Listener != nil || c.Box.Listen {
		t.Errorf("%+v", c)
	}
	for _, name := range box.Protected[1:] { // names are denied: nothing has to stand in for them
		if _, err := os.Lstat(m.path("ws/" + name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}

func TestProfileOfOtherModes(t *testing.T) {
	t.Parallel()
	m := newMac(t, "ws/a", "ws/keys/k.pem", "ro/a", "other/a")
	j, _ := m.confine(launch.Grant{Mode: box.ReadOnly, WritableRoots: m.paths("ws"), Tmp: m.path("tmp"), Network: true})
	m.expect(j, map[string]string{"ws/a": "r", "tmp/a": "r", "/private/tmp/x": "r", "u/.ssh/id": "", "/etc/x": "r"})
	if !j.Allows("network-outbound", seatbelttest.Subject{Remote: "ip 10.0.0.1:80"}) || j.Allows("network-outbound", seatbelttest.Subject{Remote: "unix /private/var/run/docker.sock"}) {
		t.Error("the network is another")
	}
	j, _ = m.confine(launch.Grant{Mode: box.WorkspaceWrite, WritableRoots: m.paths("ws"), ReadableRoots: m.paths("ws", "ro"), Tmp: m.path("tmp")})
	m.expect(j, map[string]string{
		"ws/a": "rw", "ro/a": "r", "other/a": "", "/": "r", "/usr/lib/x": "r", "/System/x": "r", "/private/etc/hosts": "r", "/Users/x": "", "/private/var/db/other": "", "tmp/x": "rw",
		"/opt/gantry/gantry-launch": "r",
	})
	if !j.Allows("file-read-metadata", seatbelttest.Subject{Path: m.dir}) || j.Allows("file-read-metadata", seatbelttest.Subject{Path: m.path("other/a")}) {
		t.Error("the way to a root must be seen, and nothing beside it")
	}
	j, _ = m.confine(launch.Grant{Mode: box.WorkspaceWrite, WritableRoots: m.paths("ws"), Shown: m.paths("u/.ssh/id", "u/.gantry/secrets/key", "u/Library/Keychains")})
	m.expect(j, map[string]string{"u/.ssh/id": "r", "u/.ssh/other": "", "u/.gantry/secrets/key": "", "u/Library/Keychains/login": "r"})
	j, _ = m.confine(launch.Grant{Mode: launch.FullAccess, DenyRead: []string{m.path("ws/keys"), m.path("other/**/a*")}, Network: true})
	m.expect(j, map[string]string{"ws/keys/k.pem": "", "ws/Keys/new": "", "other/x/ab": "", "ws/a": "rw", "u/.ssh/id": "rw", "/etc/x": "rw"})
	if j.Removes(m.path("ws"), true) || !j.Removes(m.path("ro"), true) || !j.Allows("mach-lookup", seatbelttest.Subject{Name: "any"}) {
		t.Error("full access is full but for what is denied, and where that lies")
	}
}

func TestProfileOfDenials(t *testing.T) {
	t.Parallel()
	m := newMac(t, "ws/a.env", "ws/d/in/x", "ws/conf/x/a.key", "ws/vendor/v", "ws/target/secret", "ws/sub/")
	if err := os.Symlink(m.path("ws/target/secret"), m.path("ws/sub/link.env")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(m.path("ws/a.env"), m.path("ws/other")); err != nil {
		t.Fatal(err)
	}
	g := launch.Grant{
		Mode: box.WorkspaceWrite, WritableRoots: m.paths("ws", "ws/d/in"), Tmp: m.path("tmp"),
		DenyRead:  []string{m.path("ws/**/*.env"), m.path("ws/d"), m.path("ws/conf/**/*.key"), m.path("ws/missing/key")},
		DenyWrite: []string{m.path("ws/vendor"), m.path("ws/**/*.lock")}, Opened: m.paths("ws/vendor/v"),
	}
	j, _ := m.confine(g)
	m.expect(j, map[string]string{
		"ws/a.env": "", "ws/new/B.Env": "", "ws/a.env/x": "", "ws/d": "", "ws/d/x": "", "ws/d/in": "rw", "ws/d/in/x": "rw", "ws/d/in/x.env": "", "ws/d/inx": "",
		"ws/conf/x/a.key": "", "ws/conf/new/b.KEY": "", "ws/a.key": "rw", "ws/missing/key": "", "ws/missing/other": "rw", "ws/go.lock": "r", "ws/sub/go.LOCK": "r",
		"ws/target/secret": "", "ws/target/x": "rw", "ws/other": "", "ws/vendor/v": "rw", "ws/vendor/w": "r",
	})
	for p, want := range map[string]bool{"ws/conf": false, "ws/conf/x": false, "ws/target": false, "ws/sub": true, "ws/d/in": false} {
		if got := j.Removes(m.path(p), true); got != want {
			t.Errorf("%s can be renamed: %v", p, got)
		}
	}
}

func TestProfileWithAProxy(t *testing.T) {
	t.Parallel()
	m := newMac(t)
	j, c := m.confine(launch.Grant{Mode: box.WorkspaceWrite, WritableRoots: m.paths("ws"), Proxied: true})
	if c.Listener == nil || c.Box.Listen {
		t.Fatalf("%+v", c)
	}
	defer c.Listener.Close()
	_, port, err := net.SplitHostPort(c.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if !j.Allows("network-outbound", seatbelttest.Subject{Remote: "ip localhost:" + port}) || j.Allows("network-outbound", seatbelttest.Subject{Remote: "ip localhost:1"}) {
		t.Error("there is another way out than the proxy")
	}
	if !slices.Contains(c.Env, "HTTPS_PROXY=http://127.0.0.1:"+port) && !slices.Contains(c.Env, "HTTPS_PROXY=127.0.0.1:"+port) {
		t.Errorf("nothing names the proxy: %q", c.Env)
	}
}

// Names of the file system's that would be rules, links on the way, and folders that are not there.
func TestProfileOfHostileNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{`q"uote`, "par)en(s", "new\nline", "ünï", `back\slash`, "star*[a]?", "(param \"P0\")", "e\u0301"} {
		m := newMac(t, "real/"+name+"/x", "real/"+name+"/.git/config")
		if err := os.Symlink(m.path("real"), m.path("link")); err != nil {
			t.Fatal(err)
		}
		j, _ := m.confine(launch.Grant{Mode: box.WorkspaceWrite, WritableRoots: []string{m.path("link/" + name), m.path("gone")}, DenyRead: []string{glob.Quote(m.path("real/"+name)) + "/*.pem"}})
		m.expect(j, map[string]string{"real/" + name + "/x": "rw", "real/" + name + "/.git/x": "r", "real/" + name + "/a.PEM": "", "real/x": "r", "gone/x": "r"})
	}
}

func TestProfileOfAPlugin(t *testing.T) {
	t.Parallel()
	m := newMac(t, "u/.gantry/data/mine/x", "u/.gantry/run/h1/p1/", "u/.gantry/run/h1/p2/s", "u/.aws/credentials", "out/granted/x", "u/.gantry/own.pem")
	cfg := pluginbox.Config{
		Home: m.home, UserHome: m.path("u"), Hidden: m.paths("u/.gantry/run/h1"), Own: m.paths("u/.gantry/run/h1/p1", "u/.gantry/data/mine"),
		Read: m.paths("u/.gantry/own.pem"), Write: m.paths("out/granted"), Confined: true,
	}
	for _, confined := range []bool{true, false} {
		cfg.Confined = confined
		p, err := pluginbox.Policy(cfg).Profile()
		if err != nil {
			t.Fatal(err)
		}
		j := seatbelttest.New(t, p)
		want := map[string]string{
			"u/.gantry/secrets/key": "", "u/.gantry/threads.db": "", "u/.gantry/data/other/x": "", "u/.gantry/run/h1/p2/s": "", "u/.ssh/id": "", "u/.netrc": "",
			"u/.gantry/data/mine/x": "rw", "u/.gantry/run/h1/p1/s": "rw", "out/granted/x": "rw", "u/.gantry/plugins/p": "r", "u/.gantry/own.pem": "r",
			"u/.aws/credentials": "", "out/x": "r", "/private/tmp/x": "r", "/private/var/run/x": "",
		}
		if !confined {
			for _, p := range []string{"u/.gantry/plugins/p", "u/.gantry/own.pem", "u/.aws/credentials", "out/x", "/private/tmp/x", "/private/var/run/x"} {
				want[p] = "rw"
			}
		}
		m.expect(j, want)
		for remote, ok := range map[string]bool{"ip 10.0.0.1:80": !confined, "unix " + m.path("u/.gantry/run/h1/p1/s"): true, "unix " + m.path("u/.gantry/run/h1/p2/s"): false, "unix /private/var/run/mDNSResponder": !confined} {
			if got := j.Allows("network-outbound", seatbelttest.Subject{Remote: remote}); got != ok {
				t.Errorf("confined %v: %s is reached: %v", confined, remote, got)
			}
		}
		if !j.Allows("network-bind", seatbelttest.Subject{Remote: "unix " + m.path("u/.gantry/run/h1/p1/s")}) {
			t.Error("its own socket can't be made")
		}
	}
}

// What a grant does not let be read or written elsewhere it does not here.
func TestProfileMatchesReach(t *testing.T) {
	t.Parallel()
	m := newMac(t, "ws/a/b/c", "ws/a/.git/config", "ws/a/.git/hooks/h", "ws/.git/config", "ws/a/x.env", "ws/b/A.ENV", "ws/a/keys/k", "ro/a/b", "ws/b/.codex/c", "ws/é/x")
	dirs := []string{"ws", "ws/a", "ws/a/b", "ws/b", "ro", "ro/a", "ws/a/keys", "ws/.git", "ws/é"}
	rapid.Check(t, func(r *rapid.T) {
		some := func(label string, from []string, most int) []string {
			return m.paths(slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.SampledFrom(from), 0, most).Draw(r, label))))...)
		}
		patterns := []string{"ws/**/*.env", "ws/a/keys", "ws/*/x*", "ro/a", "ws/a/**/k", "ws/[ab]/B", "ws/missing", "ws/é", "ws/a/b/c"}
		g := launch.Grant{
			Mode:          rapid.SampledFrom([]string{box.ReadOnly, box.WorkspaceWrite, launch.FullAccess}).Draw(r, "mode"),
			WritableRoots: some("roots", dirs, 3), DenyRead: some("deny", patterns, 3), DenyWrite: some("keep", patterns, 2), Tmp: m.path("tmp"),
		}
		if rapid.Bool().Draw(r, "restricted") {
			g.ReadableRoots = slices.Concat(g.WritableRoots, some("readable", dirs, 2))
		}
		if !m.box.Enforces(g) {
			return
		}
		c := &launch.Confinement{Argv: []string{"true"}, Cwd: "/", Launcher: "/opt/gantry/gantry-launch"}
		release, err := m.box.Confine(t.Context(), g, false, c)
		if err != nil {
			r.Skip(err)
		}
		defer release()
		p := seatbelt.Profile{Text: c.Box.Args[1]}
		for i := 3; i < len(c.Box.Args); i += 2 {
			name, value, _ := strings.Cut(c.Box.Args[i], "=")
			p.Parameters = append(p.Parameters, seatbelt.Parameter{Name: name, Value: value})
		}
		j := seatbelttest.New(t, p)
		names := []string{"a", "b", "c", "x", "x.env", "A.ENV", ".git", ".codex", "config", "hooks", "h", "keys", "k", "B", "é", ".aws", "missing"}
		for range 20 {
			path := m.path(rapid.SampledFrom([]string{"ws", "ro", "u", "."}).Draw(r, "top") + "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(r, "path"), "/"))
			reach := box.Reach(g, path)
			info, err := os.Lstat(path)
			if strings.HasPrefix(m.path(""), "/tmp/") && g.Mode == box.WorkspaceWrite && reach == box.AccessWrite {
				continue // where these files lie is the box's own /tmp elsewhere
			}
			if j.Reads(path) && reach < box.AccessRead {
				r.Fatalf("%+v: %s is read\n%s\n%q", g, path, p.Text, p.Parameters)
			}
			made := err != nil && (strings.Contains(path, "/.git/") || strings.Contains(path, "/.codex") || strings.HasSuffix(path, "/.git")) // looked at when the box ends
			if err == nil && info.IsDir() && filepath.Base(path) == ".git" && g.Mode == box.WorkspaceWrite && filepath.Base(filepath.Dir(path)) != "ws" {
				continue // a repository further down: what is executed in it is held, and not the folder itself; Reach takes it for a file
			}
			if j.Writes(path) && reach < box.AccessWrite && !made && (g.Mode != launch.FullAccess || reach < box.AccessRead) {
				r.Fatalf("%+v: %s is written\n%s\n%q", g, path, p.Text, p.Parameters)
			}
		}
	})
}
