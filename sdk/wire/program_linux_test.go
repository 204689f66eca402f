package wire

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestUnchangedMappings(t *testing.T) {
	entry := func(head, anonymous string) string {
		return head + "\nRss:                4 kB\nShared_Dirty:       0 kB\nPrivate_Clean:      4 kB\nPrivate_Dirty:      4 kB\nAnonymous:          " + anonymous + " kB\nVmFlags: rd ex mr mw me\n"
	}
	text := entry("00400000-00a80000 r-xp 00000000 fe:00 123                        /opt/a plugin", "0") +
		entry("00a80000-00b00000 r--p 00680000 fe:00 123                        /opt/a plugin", "0") +
		entry("00b00000-00b80000 r--p 00680000 fe:00 123                        /opt/a plugin", "4") +
		entry("00c00000-00d00000 rw-p 00dff000 fe:00 123                        /opt/a plugin", "0") +
		entry("7f0000000000-7f0000100000 r-xp 00000000 fe:00 9                  /lib/other", "0") +
		entry("7ffd00000000-7ffd00010000 r-xp 00000000 00:00 0                  [vdso]", "0")
	want := []mapping{{0x400000, 0xa80000}, {0xa80000, 0xb00000}}
	if got := unchanged([]byte(text), "/opt/a plugin"); !reflect.DeepEqual(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := unchanged([]byte("garbage\n0-0 r\n"), "/opt/a plugin"); got != nil {
		t.Errorf("%x", got)
	}
}

// The program runs on, and does not change.
func TestFreeProgram(t *testing.T) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	all, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	if len(unchanged(all, exe)) == 0 {
		t.Error("the program has no code")
	}
	for range 3 {
		freeProgram()
		if got := strings.ToUpper("still here"); got != "STILL HERE" {
			t.Error(got)
		}
	}
}
