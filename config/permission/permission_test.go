package permission

import (
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
	if !(Set{}).AllowsExec("git") || (Set{Exec: []string{}}).AllowsExec("git") || (Set{Exec: []string{"git"}}).AllowsExec() {
		t.Error("without a list any program may be started, with an empty one none")
	}
	for _, bad := range []string{"", " ", "*", "** x", "git ** x", "g*t status", "git sta*"} {
		if CheckExec(bad) == nil {
			t.Errorf("CheckExec(%q) = nil, want an error", bad)
		}
	}
}

func TestCheckNetwork(t *testing.T) {
	for _, good := range []string{"*", "example.com", "example.com:443", "**.example.com", "127.0.0.1:3000"} {
		if err := CheckNetwork(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "https://example.com", "example.com/path", "127.0.0.*"} {
		if CheckNetwork(bad) == nil {
			t.Errorf("CheckNetwork(%q) = nil, want an error", bad)
		}
	}
	if !(Set{Network: []string{"a.example", "*"}}).WholeNetwork() || (Set{Network: []string{"*.example"}}).WholeNetwork() {
		t.Error("the whole network is granted by \"*\" alone")
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
	if Digest(Set{}) == Digest(Set{Exec: []string{}}) {
		t.Error("no program is not any program")
	}
	processes := func(n Network) string { return Digest(Set{Processes: Processes{Network: &n}}) }
	if processes(Network{Mode: "proxy", Allow: []string{"a", "b"}}) != processes(Network{Mode: "proxy", Allow: []string{"b", "a", "b"}}) {
		t.Error("the order of hosts should not count")
	}
	seen := map[string]bool{Digest(Set{}): true, Digest(Set{Processes: Processes{Memory: 1}}): true}
	for _, n := range []Network{{}, {Mode: "full"}, {Allow: []string{"a"}}, {Deny: []string{"a"}}, {Limited: true}, {Local: true}, {Unknown: "deny"}} {
		if d := processes(n); seen[d] {
			t.Errorf("%+v is not part of the digest", n)
		} else {
			seen[d] = true
		}
	}
	if got, want := string((Set{}).Canonical()), `{"exec":[],"network":[],"read":[],"write":[]}`; got != want {
		t.Errorf("consents from before there were such settings are lost: %s, want %s", got, want)
	}
	if got := Digest(Set{}); !strings.HasPrefix(got, "g1:") || len(got) != 3+44 {
		t.Errorf("Digest = %q, want g1: and base64", got)
	}
}
