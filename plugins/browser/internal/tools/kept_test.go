package tools

import (
	"strings"
	"testing"
)

func TestProfileDomains(t *testing.T) {
	t.Parallel()
	b := ProfileBlock{Name: "work", Domains: []string{"a.com", "*.b.com", "**.C.com"}}
	if err := b.check(); err != nil {
		t.Error(err)
	}
	for host, want := range map[string]bool{
		"a.com": true, "www.a.com": false, "b.com": true, "x.y.b.com": true, "notb.com": false, "c.com": true, "x.c.com": true, "com": false, "": false, "d.com": false,
	} {
		if b.has(host) != want {
			t.Errorf("%s: %v", host, !want)
		}
	}
	for _, d := range []string{"", "*", "*.", "**.", "a.*", "https://a.com", "a.com:80", "a.com/x"} {
		if err := (ProfileBlock{Name: "work", Domains: []string{d}}).check(); err == nil || !strings.Contains(err.Error(), "is not a domain of a profile") {
			t.Errorf("%q: %v", d, err)
		}
	}
	if (ProfileBlock{Name: "work"}).check() == nil {
		t.Error("a profile without domains is accepted")
	}
}
