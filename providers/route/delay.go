package route

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// firstDelay doubles with each attempt, with ±10 % of jitter, so that clients that failed together do not retry together.
	firstDelay = 200 * time.Millisecond
	// maxTries limits what the host may request.
	maxTries = 100
)

// backoff returns the delay after attempt n, starting at 1. noise is in [0, 1).
func backoff(n int, noise float64, longest time.Duration) time.Duration {
	n = min(n, 30) // larger values reach the limit anyway, and the shift stays defined
	d := float64(firstDelay) * float64(int64(1)<<(n-1)) * (0.9 + 0.2*noise)
	return min(time.Duration(d), longest)
}

// retryAfter returns the delay that a response's headers request. ok is false if there is none. A delay in the past is 0.
func retryAfter(h http.Header, now time.Time) (d time.Duration, ok bool) {
	if d, ok := duration(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d, true
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if d, ok := duration(value, time.Second); ok {
		return d, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}

// duration parses a number of units. The result is at least 0 and limited, so that no server can make it overflow.
func duration(s string, unit time.Duration) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if s == "" || strings.Trim(s, "+-.0123456789eE") != "" { // no "Inf", hexadecimal or "1_000"
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(n, 0) {
		return 0, false
	}
	return time.Duration(min(max(0, n*float64(unit)), float64(forever))), true
}
