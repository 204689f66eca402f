package once_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/once"
)

func TestSet(t *testing.T) {
	var s once.Set
	if s.Has("a") || !s.First("a") || s.First("a") || !s.Has("a") || !s.First("b") {
		t.Error("a key is new once")
	}
	var first atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if s.First("c") {
				first.Add(1)
			}
		})
	}
	all.Wait()
	if n := first.Load(); n != 1 {
		t.Errorf("%d goroutines were the first", n)
	}
}
