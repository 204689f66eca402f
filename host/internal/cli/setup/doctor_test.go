package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/config/hint"
)

func TestDiskProblem(t *testing.T) {
	for _, tc := range []struct {
		err        error
		text, next string
	}{
		{&fs.PathError{Op: "open", Path: "/h/x", Err: syscall.EROFS}, "mounted read-only", "mount it writable"},
		{errors.Join(&fs.PathError{Op: "write", Path: "/h/x", Err: syscall.ENOSPC}, errors.New("and more")), "the disk that /h is on is full", "free up space"},
		{&fs.PathError{Op: "write", Path: "/h/x", Err: syscall.EDQUOT}, "used up", "delete"},
		{&fs.PathError{Op: "open", Path: "/h/x", Err: syscall.EACCES}, "/h is not writable by this user", "chown"},
		{&fs.PathError{Op: "open", Path: "/h/x", Err: syscall.EIO}, "input/output error", "check the disk"},
	} {
		text, next := diskProblem("/h", tc.err)
		if !strings.Contains(text, tc.text) || !strings.Contains(next, tc.next) || !strings.Contains(next, "GANTRY_HOME") {
			t.Errorf("%v: %q, next %q; want %q, %q", tc.err, text, next, tc.text, tc.next)
		}
	}
}

// An error's own next step is the finding's, and not a part of its text.
func TestFindingHasOneNextStep(t *testing.T) {
	d := &doctor{}
	d.say(ill, "database", "what would fit otherwise", "%w", fmt.Errorf("open: %w", hint.New("it is full", "make room")))
	if f := d.found[0]; f.Text != "open: it is full" || f.Next != "make room" {
		t.Errorf("finding = %+v", f)
	}
}

func TestMacOSIsExperimental(t *testing.T) {
	d := &doctor{}
	d.system("linux")
	if len(d.found) > 0 {
		t.Errorf("on Linux: %+v", d.found)
	}
	d.system("darwin")
	if len(d.found) != 1 || d.found[0].Health != worth || !strings.Contains(d.found[0].Text, "experimental") || d.found[0].Next == "" {
		t.Errorf("on macOS: %+v", d.found)
	}
}
