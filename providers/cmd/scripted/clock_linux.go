package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock reads both clocks. The monotonic clock starts with the machine, so benchmarks can compare it between processes.
func clock() (wall time.Time, monotonic time.Duration) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Now(), 0
	}
	return time.Now(), time.Duration(ts.Nano())
}
