//go:build !linux

package main

import "time"

// clock reads the wall clock. This platform has no monotonic clock that processes share.
func clock() (wall time.Time, monotonic time.Duration) { return time.Now(), 0 }
