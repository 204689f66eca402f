//go:build !amd64

package attacks_test

import "testing"

// breakOut can't be tried on this architecture. TestLock makes the same calls in a process of its own.
func breakOut(t *testing.T, _ int, _ string) { t.Helper() }
