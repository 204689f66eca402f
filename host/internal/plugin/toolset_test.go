package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestToolSetCacheRemovesTheOldest(t *testing.T) {
	c := toolSetCache{manifestCache{filepath.Join(t.TempDir(), "tools"), "1"}, 3}
	for i := range 5 {
		key := fmt.Sprint("program-", i)
		if err := c.put(key, []byte(key)); err != nil {
			t.Fatal(err)
		}
		old := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(c.file(key), old, old); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"", "", "program-2", "program-3", "program-4"} {
		if got := string(c.get(fmt.Sprint("program-", i))); got != want {
			t.Errorf("set of program %d is %q, want %q", i, got, want)
		}
	}
	if err := (toolSetCache{}).put("program", []byte("set")); err != nil {
		t.Errorf("without a folder: %v", err)
	}
}

func TestConfigurationDigest(t *testing.T) {
	digests := map[string]string{}
	for name, digest := range map[string]string{
		"empty":         configuration([]byte("{}"), nil),
		"a block":       configuration([]byte(`{"a":1}`), nil),
		"a variable":    configuration([]byte("{}"), map[string]string{"A": "BC"}),
		"joined alike":  configuration([]byte("{}"), map[string]string{"AB": "C"}),
		"another value": configuration([]byte("{}"), map[string]string{"A": "B"}),
	} {
		if other, ok := digests[digest]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		digests[digest] = name
	}
}
