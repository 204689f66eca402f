//go:build linux

package fspath

import (
	"slices"
	"testing"
)

// What is seen at one place is found at all others, also where only a part of it is mounted, and nothing else is.
func TestOtherPaths(t *testing.T) {
	mounts := parseMounts([]byte(`22 1 8:1 / / rw - ext4 /dev/a rw
23 22 8:2 / /home rw - ext4 /dev/b rw
24 22 8:2 /u /mnt/my\040copy rw - ext4 /dev/b rw
25 22 8:2 /u/.ssh/sub /keys rw - ext4 /dev/b rw
26 22 8:2 /other /other rw - ext4 /dev/b rw
27 22 8:1 / /sysroot rw - ext4 /dev/a rw
28 22 8:3 / /covered rw - ext4 /dev/c rw
29 22 8:2 / /covered rw - ext4 /dev/b rw
30 23 8:4 / /home/u/.aws rw - ext4 /dev/d rw
31 22 8:4 / /volume rw - ext4 /dev/d rw
`))
	there := func(string, string) bool { return true }
	for path, want := range map[string][]string{
		"/home/u/.ssh":       {"/mnt/my copy/.ssh", "/keys", "/covered/u/.ssh"},
		"/home/u/.netrc":     {"/mnt/my copy/.netrc", "/covered/u/.netrc"},
		"/home/u/.aws":       {"/volume"},
		"/home/u/.aws/x":     {"/volume/x"},
		"/etc/shadow":        {"/sysroot/etc/shadow"},
		"/mnt/my copy/.ssh":  {"/home/u/.ssh", "/keys", "/covered/u/.ssh"},
		"/home/us":           {"/covered/us"},
		"/home/u/.ssh/sub/x": {"/mnt/my copy/.ssh/sub/x", "/keys/x", "/covered/u/.ssh/sub/x"},
	} {
		if got := otherPaths(mounts, []string{path}, there); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := otherPaths(mounts, []string{"/home/u/.netrc"}, func(a, b string) bool { return false }); len(got) > 0 {
		t.Errorf("another file is there: %q", got)
	}
}
