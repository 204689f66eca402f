package permission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAllowsExec(t *testing.T) {
	for _, tt := range []struct {
		pattern, argv string
		want          bool
	}{
		{"git *", "git status", true},
		{"git *", "git status -s", false},
		{"git *", "git", false},
		{"git *", "npm i", false},
		{"cargo test **", "cargo test", true},
		{"cargo test **", "cargo test --a --b", true},
		{"cargo test **", "cargo build", false},
		{"docker run * **", "docker run", false},
		{"docker run * **", "docker run img sh -c x", true},
		{"git status", "git status", true},
		{"git status", "/tmp/git status", false},
	} {
		if err := CheckExec(tt.pattern); err != nil {
			t.Errorf("CheckExec(%q): %v", tt.pattern, err)
		}
		s := Set{Exec: []string{tt.pattern}}
		if got := s.AllowsExec(strings.Fields(tt.argv)...); got != tt.want {
			t.Errorf("%q allows %q = %v, want %v", tt.pattern, tt.argv, got, tt.want)
		}
	}
	if (Set{}).AllowsExec("git") || (Set{Exec: []string{"git"}}).AllowsExec() {
		t.Error("nothing granted, or nothing asked, should not be allowed")
	}
	for _, bad := range []string{"", " ", "*", "** x", "git ** x", "g*t status", "git sta*"} {
		if CheckExec(bad) == nil {
			t.Errorf("CheckExec(%q) = nil, want an error", bad)
		}
	}
}

func TestCapability(t *testing.T) {
	declared := []string{"spawn", "network"}
	if s := (Set{}); !s.Capability("spawn", declared) || s.Capability("sample", declared) {
		t.Error("without a list, exactly the declared ones should be granted")
	}
	s := Set{Capabilities: []string{"spawn", "sample"}}
	for name, want := range map[string]bool{"spawn": true, "network": false, "sample": false} {
		if got := s.Capability(name, declared); got != want {
			t.Errorf("capability %s = %v, want %v (declared and granted)", name, got, want)
		}
	}
	if (Set{Capabilities: []string{}}).Capability("spawn", declared) {
		t.Error("an empty list should grant nothing")
	}
}

func TestAllowsHost(t *testing.T) {
	s := Set{Network: []string{"api.example.com:443", "*.cdn.example.com:443", "localhost:*", "[::1]:8080"}}
	for _, tt := range []struct {
		host string
		port int
		want bool
	}{
		{"api.example.com", 443, true},
		{"API.example.com.", 443, true},
		{"api.example.com", 80, false},
		{"evil-api.example.com", 443, false},
		{"a.cdn.example.com", 443, true},
		{"a.b.cdn.example.com", 443, true},
		{"cdn.example.com", 443, false},
		{"evilcdn.example.com", 443, false},
		{"localhost", 1, true},
		{"::1", 8080, true},
		{"::1", 8081, false},
	} {
		if got := s.AllowsHost(tt.host, tt.port); got != tt.want {
			t.Errorf("allows %s:%d = %v, want %v", tt.host, tt.port, got, tt.want)
		}
	}
	for _, bad := range []string{"", "example.com", "https://example.com:443", "example.com:0", "example.com:https", "*:443", "a.*.com:443", "user@x.y:1", ":443", "x:70000", "x:080"} {
		if CheckHost(bad) == nil {
			t.Errorf("CheckHost(%q) = nil, want an error", bad)
		}
	}
}

func TestPathsStayInside(t *testing.T) {
	root := t.TempDir()
	work, other := filepath.Join(root, "work"), filepath.Join(root, "other")
	for _, d := range []string{work, other, filepath.Join(work, "a")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"out": other, "dangling": filepath.Join(other, "new"), "in": filepath.Join(work, "a")} {
		if err := os.Symlink(target, filepath.Join(work, link)); err != nil {
			t.Skip("no symbolic links here:", err)
		}
	}
	s := Set{Write: []string{work}, Read: []string{other}}
	for _, tt := range []struct {
		path        string
		read, write bool
	}{
		{work, true, true},
		{work + "/new/file", true, true},
		{work + "/in/file", true, true},
		{work + "/out/file", true, false}, // lies in other
		{work + "/dangling", false, false},
		{work + "/a/../../x", false, false},
		{work + "/a/../x", false, false},
		{work + "2/x", false, false},
		{other + "/x", true, false},
		{"work/x", false, false},
		{root, false, false},
	} {
		if got := s.AllowsWrite(tt.path, nil); got != tt.write {
			t.Errorf("write %s = %v, want %v", tt.path, got, tt.write)
		}
		if got := s.AllowsRead(tt.path, nil); got != tt.read {
			t.Errorf("read %s = %v, want %v", tt.path, got, tt.read)
		}
	}
}

func TestDigest(t *testing.T) {
	a := Set{Network: []string{"b:1", "a:1"}, Exec: []string{"git  status"}}
	b := Set{Network: []string{"a:1", "b:1", "a:1"}, Exec: []string{"git status"}}
	if Digest(a) != Digest(b) {
		t.Errorf("order, repetition and spaces should not count: %s, %s", a.Canonical(), b.Canonical())
	}
	if c := (Set{Network: []string{"a:1"}}); Digest(a) == Digest(c) || Digest(a, c) != Digest(c, b) || Digest(a, c) == Digest(a) {
		t.Error("the digest should depend on every set and not on their order")
	}
	if Digest(Set{}) == Digest(Set{Capabilities: []string{}}) {
		t.Error("no capability is not every capability")
	}
	if got := Digest(Set{}); !strings.HasPrefix(got, "g1:") || len(got) != 3+44 {
		t.Errorf("Digest = %q, want g1: and base64", got)
	}
}
