package agent

import (
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	for _, tc := range []struct{ caller, target, path, err string }{
		{"/root", "alpha", "/root/alpha", ""},
		{"/root/x", "a/b", "/root/x/a/b", ""},
		{"/root/x", "/root", "/root", ""},
		{"/root/x", " /root/y ", "/root/y", ""},
		{"/root", "/morpheus/a", "/morpheus/a", ""},
		{"/root", "nosuch", "/root/nosuch", ""},
		{"/root", "", "", "empty"},
		{"/root", "/other/a", "", "not below /root"},
		{"/root", "/rooted", "", "not below /root"},
		{"/root", "/", "", "not below /root"},
		{"/root", "/root/", "", "slash"},
		{"/root", "a/", "", "slash"},
		{"/root", "a//b", "", "lowercase"},
		{"/root", "../b", "", "lowercase"},
		{"/root", "Bad Name", "", "lowercase"},
		{"/root", "a-b", "", "lowercase"},
	} {
		path, id, err := resolve(tc.caller, tc.target)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s, %q: %v, want %q", tc.caller, tc.target, err, tc.err)
			}
			continue
		}
		if err != nil || path != tc.path || id != "" {
			t.Errorf("%s, %q: %q %q %v, want %q", tc.caller, tc.target, path, id, err, tc.path)
		}
	}
	const id = "0198c3f0-6a3e-7d40-8f00-0123456789ab"
	if path, got, err := resolve("/root", id); err != nil || path != "" || got != id {
		t.Errorf("an id: %q %q %v", path, got, err)
	}
}

func TestCheckName(t *testing.T) {
	for name, want := range map[string]string{
		"": "empty", "root": "reserved", ".": "reserved", "..": "reserved", "a/b": "slashes", "Bad Name": "lowercase", "a-b": "lowercase", "ä": "lowercase",
		strings.Repeat("a", 29): "longer", "a_1": "", strings.Repeat("a", 28): "",
	} {
		err := checkName(name)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error()+nextOf(err), want)) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

func nextOf(err error) string {
	if s, ok := err.(interface{ NextStep() string }); ok {
		return s.NextStep()
	}
	return ""
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{"alpha", "/root/a", "a/b", "/", "//", "/root//a", "/rootb", "..", "0198c3f0-6a3e-7d40-8f00-0123456789ab"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		path, id, err := resolve("/root/x", target)
		if err != nil || id != "" {
			return
		}
		if again, _, err := resolve("/root/y", path); err != nil || again != path {
			t.Errorf("%q resolves to %q, and that to %q, %v", target, path, again, err)
		}
		if !isWithin(path, Root) && !isWithin(path, otherRoot) {
			t.Errorf("%q leaves the tree: %q", target, path)
		}
		if depthOf(path) > 0 && join(parentOf(path), nameIn(path)) != path {
			t.Errorf("%q falls apart into %q and %q", path, parentOf(path), nameIn(path))
		}
	})
}

func TestNickname(t *testing.T) {
	used := map[string]bool{}
	names := []string{"Oak", "Fern"}
	var got []string
	for range 26 {
		n := nickname(names, used, func(int) int { return 0 })
		if used[n] {
			t.Fatalf("%q is used twice", n)
		}
		used[n] = true
		got = append(got, n)
	}
	for i, want := range map[int]string{0: "Oak", 1: "Fern", 2: "Oak the 2nd", 5: "Fern the 3rd", 6: "Oak the 4th", 20: "Oak the 11th", 22: "Oak the 12th", 25: "Fern the 13th"} {
		if got[i] != want {
			t.Errorf("the %d. is %q, want %q", i, got[i], want)
		}
	}
	if again("Oak", 21) != "Oak the 21st" || again("Oak", 112) != "Oak the 112th" {
		t.Error(again("Oak", 21), again("Oak", 112))
	}
	seen := map[string]bool{}
	for _, n := range pool {
		if seen[n] {
			t.Errorf("%s is in the pool twice", n)
		}
		seen[n] = true
	}
}
