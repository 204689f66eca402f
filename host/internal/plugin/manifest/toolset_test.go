package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestToolSetsRemovesTheOldest(t *testing.T) {
	c := ToolSets{store{filepath.Join(t.TempDir(), "tools"), "1"}, 3}
	for i := range 5 {
		key := fmt.Sprint("program-", i)
		if err := c.Put(key, []byte(key)); err != nil {
			t.Fatal(err)
		}
		old := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(c.file(key), old, old); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"", "", "program-2", "program-3", "program-4"} {
		if got := string(c.Get(fmt.Sprint("program-", i))); got != want {
			t.Errorf("set of program %d is %q, want %q", i, got, want)
		}
	}
	if err := (ToolSets{}).Put("program", []byte("set")); err != nil {
		t.Errorf("without a folder: %v", err)
	}
}

func TestToolSetKey(t *testing.T) {
	keys := map[string]string{}
	for name, key := range map[string]string{
		"empty":         ToolSetKey("program", []byte("{}"), nil),
		"a block":       ToolSetKey("program", []byte(`{"a":1}`), nil),
		"a variable":    ToolSetKey("program", []byte("{}"), map[string]string{"A": "BC"}),
		"joined alike":  ToolSetKey("program", []byte("{}"), map[string]string{"AB": "C"}),
		"another value": ToolSetKey("program", []byte("{}"), map[string]string{"A": "B"}),
	} {
		if other, ok := keys[key]; ok {
			t.Errorf("%s has the same key as %s", name, other)
		}
		keys[key] = name
	}
}
