//go:build !linux

package main

import "time"

// clock reads the wall clock; a monotonic clock that other processes share is not at hand here.
func clock() (wall time.Time, monotonic time.Duration) { return time.Now(), 0 }
