package protocoltest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestChecker(t *testing.T) {
	c := NewChecker(t)
	for _, tt := range []struct {
		client        bool
		message, want string // want: part of the error
	}{
		{true, `{"method":"initialized"}`, ""},
		{true, `{"id":1,"method":"thread/archive","params":{"threadId":"x"}}`, ""},
		{false, `{"id":1,"result":{}}`, ""},
		{false, `{"id":1,"result":{}}`, "a response to nothing"},
		{true, `{"id":1,"method":"thread/unsubscribe","params":{"threadId":"x"}}`, ""},
		{false, `{"id":1,"result":{"status":"gone"}}`, "does not match ThreadUnsubscribeResponse"},
		{true, `{"id":1,"method":"thread/read","params":{}}`, "does not match ThreadReadParams"},
		{false, `{"id":1,"error":{"code":-32602,"message":"m","data":{"kind":"k","next":"n"}}}`, ""},
		{true, `{"id":"r","method":"config/mcpServer/reload"}`, ""},
		{false, `{"id":"r","error":{"code":1,"message":"m","data":{"kind":7}}}`, "does not match ErrorData"},
		{false, `{"id":"r","error":{"code":1,"message":"m"}}`, ""},
		{true, `{"id":2,"method":"no/such"}`, "unknown method no/such"},
		{false, `{"method":"thread/closed","params":{"threadId":"x"},"emittedAtMs":1}`, ""},
		{false, `{"method":"thread/closed","params":{}}`, "does not match ThreadClosedNotification"},
		{false, `{"method":"thread/closed"}`, "no value"},
		{false, `{"method":"no/such"}`, "unknown notification"},
		{false, `{"id":1,"method":"currentTime/read","params":{"threadId":"x"}}`, ""},
		{true, `{"id":1,"result":{"currentTimeAt":"now"}}`, "does not match CurrentTimeReadResponse"},
		{true, `{`, "unexpected end"},
	} {
		check := c.FromServer
		if tt.client {
			check = c.FromClient
		}
		err := check([]byte(tt.message))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.message, err, tt.want)
		}
	}
}

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatal(...any)          { f.failed = true; runtime.Goexit() }
func (f *failing) Fatalf(string, ...any) { f.failed = true; runtime.Goexit() }

// guide runs Guide and reports whether it failed.
func guide(path string, update bool) bool {
	f := &failing{}
	var run sync.WaitGroup
	run.Go(func() { Guide(f, path, func(string) bool { return true }, update) }) // Fatal ends the goroutine
	run.Wait()
	return f.failed
}

func TestGuide(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guide.md")
	if !guide(path, false) {
		t.Error("no failure for a file that is not there")
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# Guide\n")
	if !guide(path, true) {
		t.Error("no failure for a guide without a place")
	}
	write("# Guide\n" + GuideBegin + "old" + GuideEnd + "\nmore\n")
	if !guide(path, false) {
		t.Error("no failure for an old table")
	}
	if guide(path, true) || guide(path, false) {
		t.Error("the table was not written")
	}
	b, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(b), "# Guide\n") || !strings.Contains(string(b), "| `thread/list` |") || !strings.HasSuffix(string(b), "\nmore\n") {
		t.Errorf("%s, %v", b, err)
	}
}
