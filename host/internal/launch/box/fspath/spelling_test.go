package fspath

import (
	"strings"
	"testing"
)

func TestSpelling(t *testing.T) {
	t.Parallel()
	tree := map[string][]string{
		"/": {"Users", "private", "System"}, "/Users": {"Ann", "ann2"}, "/Users/Ann": {"Pro\u0301jects", "x", "X2"}, "/Users/Ann/Pro\u0301jects": {"Foo"},
		"/private": {"tmp"}, "/System": {},
	}
	f := folders{
		names: func(dir string) []string { return tree[dir] },
		same: func(a, b string) bool {
			return strings.EqualFold(strings.ReplaceAll(a, "o\u0301", "ó"), strings.ReplaceAll(b, "o\u0301", "ó")) || "/System/Volumes/Data"+b == a
		},
	}
	for path, want := range map[string]string{
		"/users/ann/prójects/FOO": "/Users/Ann/Pro\u0301jects/Foo", "/Users/Ann/x": "/Users/Ann/x", "/Users/Ann/X": "/Users/Ann/x", "/Users/Ann/new": "/Users/Ann/new",
		"/System/Volumes/Data/Users/Ann": "/Users/Ann", "/": "/", "/private/tmp": "/private/tmp",
	} {
		if got := f.spelled(path); got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
	f.same = func(a, b string) bool { return false } // upper and lower case are two
	if got := f.spelled("/users/ann"); got != "/users/ann" {
		t.Errorf("another folder: %q", got)
	}
}
