package past

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func read2(t *testing.T, p *Past) ([]string, string) {
	t.Helper()
	messages, draft, err := p.Read()
	if err != nil {
		t.Fatal(err)
	}
	return messages, draft
}

func add(t *testing.T, p *Past, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if err := p.Add(s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMessages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tui")
	p := Open(dir, "/a")
	if m, d := read2(t, p); len(m) > 0 || d != "" {
		t.Errorf("%q, %q", m, d)
	}
	add(t, p, "one", "two\nlines", "two\nlines", "  ", strings.Repeat("x", maxMessage+1), "three")
	if m, _ := read2(t, Open(dir, "/b")); !slices.Equal(m, []string{"one", "two\nlines", "three"}) {
		t.Errorf("%q", m)
	}
	f, err := os.OpenFile(p.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"text":"cut by a cra`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if m, _ := read2(t, p); len(m) != 3 {
		t.Errorf("%q", m)
	}
}

// Files are the user's alone, and contain no secrets.
func TestPrivate(t *testing.T) {
	const key = "sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	dir := filepath.Join(t.TempDir(), "tui")
	p := Open(dir, "/a")
	add(t, p, "use ANTHROPIC_API_KEY="+key+" please")
	if err := p.Draft("and token=" + key); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, p.file: 0o600, p.draft: 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o", path, got)
		}
	}
	m, d := read2(t, p)
	if len(m) != 1 || strings.Contains(m[0]+d, key) || !strings.HasSuffix(m[0], " please") || d == "" {
		t.Errorf("%q, %q", m, d)
	}
}

// Each folder has its draft, which ends with the message.
func TestDraft(t *testing.T) {
	dir := t.TempDir()
	a, b := Open(dir, "/a"), Open(dir, "/b")
	if err := a.Draft("half a\nmessage"); err != nil {
		t.Fatal(err)
	}
	if _, d := read2(t, Open(dir, "/a")); d != "half a\nmessage" {
		t.Errorf("%q", d)
	}
	if _, d := read2(t, b); d != "" {
		t.Errorf("%q", d)
	}
	for range 2 {
		if err := a.Draft(""); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// The file does not grow without bound, and the latest messages stay.
func TestBound(t *testing.T) {
	p := Open(t.TempDir(), "/a")
	long := strings.Repeat("x", maxMessage/2)
	for i := range 2 * maxFile / len(long) {
		add(t, p, fmt.Sprint(long, i))
	}
	m, _ := read2(t, p)
	if info, err := os.Stat(p.file); err != nil || info.Size() > maxFile {
		t.Errorf("%v, %v", info, err)
	}
	again, _ := read2(t, p)
	if len(again) == 0 || again[len(again)-1] != m[len(m)-1] || !strings.HasSuffix(again[len(again)-1], fmt.Sprint(2*maxFile/len(long)-1)) {
		t.Errorf("%d messages", len(again))
	}
}

// Several terminals may add messages at once.
func TestSeveralTerminals(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			p := Open(dir, "/a")
			for j := range 20 {
				if err := p.Add(fmt.Sprintf("%d/%d %s", i, j, strings.Repeat("y", 5000))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if m, _ := read2(t, Open(dir, "/a")); len(m) != 160 {
		t.Errorf("%d messages", len(m))
	}
}
