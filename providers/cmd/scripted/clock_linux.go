package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock reads both clocks. The monotonic one counts from the machine's start, so that a benchmark can compare it with
// what another process has read.
func clock() (wall time.Time, monotonic time.Duration) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Now(), 0
	}
	return time.Now(), time.Duration(ts.Nano())
}
