package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"github.com/hashicorp/go-hclog"
)

// A file that is damaged as a whole is set aside as it is. What is intact is in the new one; of the rest, the listing says what is missing.
func TestSalvage(t *testing.T) {
	filesOnly(t)
	t.Parallel()
	const threads = 40
	for name, damage := range map[string]struct {
		do    func(file []byte) []byte
		least int // threads that are whole again
	}{
		"a quarter is left":     {func(f []byte) []byte { return f[:len(f)/4] }, 1},
		"half of it is left":    {func(f []byte) []byte { return f[:len(f)/2] }, 5},
		"one page is missing":   {func(f []byte) []byte { return f[:len(f)-4096] }, threads - 2},
		"the header is garbage": {func(f []byte) []byte { return append(bytes.Repeat([]byte("x"), 100), f[100:]...) }, 0},
		"it is something else": {func([]byte) []byte {
			return []byte("not a database, but longer than its header would be: " + strings.Repeat("x", 100))
		}, 0},
		"the first page is zero": {func(f []byte) []byte { return append(make([]byte, 4096), f[4096:]...) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			cfg := storetest.Config(t)
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
			stories := map[event.ThreadID][]event.Event{}
			s := openAt(t, cfg)
			for i := range threads {
				id := event.ThreadID(fmt.Sprintf("thread-%d", i))
				stories[id] = storetest.Story(id, 8)
				mustAppend(t, s, stories[id]...)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			file, err := os.ReadFile(cfg.Path)
			if err != nil {
				t.Fatal(err)
			}
			file = damage.do(file)
			if err := os.WriteFile(cfg.Path, file, 0o600); err != nil {
				t.Fatal(err)
			}

			// Several processes find the damage at the same time.
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					s, err := store.Open(t.Context(), cfg)
					if err == nil {
						err = s.Close(t.Context())
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			aside, err := filepath.Glob(cfg.Path + ".damaged-*")
			if err != nil || len(aside) != 1 {
				t.Fatalf("set aside: %q, %v", aside, err)
			}
			if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, file) {
				t.Errorf("the damaged file was changed: %d bytes instead of %d, %v", len(kept), len(file), err)
			}
			if out := log.String(); strings.Count(out, "the database was damaged") != 1 || !strings.Contains(out, aside[0]) {
				t.Errorf("the log says\n%s", out)
			}

			s = openAt(t, cfg)
			infos, err := s.Threads(t.Context(), store.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			whole := 0
			for _, info := range infos {
				got, err := prefix(s.Events(t.Context(), info.ID, 0))
				want := stories[info.ID]
				damaged, _ := errors.AsType[*store.DamageError](err)
				switch {
				case len(got) > len(want) || !reflect.DeepEqual(got, want[:len(got)]):
					t.Errorf("thread %s has other events than before", info.ID)
				case err == nil && len(got) == len(want):
					whole++
				case damaged != nil && damaged.Good == uint64(len(got)) && damaged.Last == uint64(len(want)):
				case err != nil:
					t.Errorf("thread %s: %v", info.ID, err)
				}
			}
			t.Logf("%d threads, %d of them whole", len(infos), whole)
			if whole < damage.least {
				t.Errorf("%d threads are whole, want at least %d", whole, damage.least)
			}
			mustAppend(t, s, storetest.Story("later", 1)...)
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
