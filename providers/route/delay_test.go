package route

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// noon is a moment for tests.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestBackoff(t *testing.T) {
	for i, want := range []time.Duration{200, 400, 800, 1600, 3200} {
		want *= time.Millisecond
		for noise, share := range map[float64]float64{0: 0.9, 0.5: 1, 1: 1.1} {
			got := backoff(i+1, noise, time.Hour)
			if d := got - time.Duration(float64(want)*share); d.Abs() > time.Microsecond {
				t.Errorf("after try %d with noise %v: %v, want %v", i+1, noise, got, want)
			}
		}
	}
	for _, n := range []int{10, 31, 64, 100} {
		if got := backoff(n, 0.5, time.Minute); got != time.Minute {
			t.Errorf("after try %d: %v", n, got)
		}
	}
}

// lines reads headers written one a line.
func lines(s string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(s) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\n"), ":"); ok {
			h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	return h
}

func TestRetryAfter(t *testing.T) {
	none := time.Duration(-1)
	for in, want := range map[string]time.Duration{
		"retry-after: 2":                                2 * time.Second,
		"retry-after-ms: 250\nretry-after: 9":           250 * time.Millisecond,
		"retry-after-ms: 12.5":                          12500 * time.Microsecond,
		"retry-after: -3":                               0,
		"retry-after: abc":                              none,
		"retry-after-ms: abc\nretry-after: 1":           time.Second,
		"retry-after: 1.5":                              1500 * time.Millisecond,
		"retry-after: 0":                                0,
		"retry-after: Fri, 02 Jan 2026 12:00:07 GMT":    7 * time.Second,
		"retry-after: Friday, 02-Jan-26 12:00:07 GMT":   7 * time.Second,
		"retry-after: Fri, 02 Jan 2026 11:00:00 GMT":    0,
		"retry-after: 99999999999999999999999999999999": forever,
		"retry-after: 1e400":                            forever,
		"retry-after: -1e400":                           0,
		"retry-after: Inf":                              none,
		"retry-after: NaN":                              none,
		"retry-after: 0x10":                             none,
		"retry-after: .":                                none,
		"retry-after:":                                  none,
		"":                                              none,
	} {
		got, ok := retryAfter(lines(in), noon)
		if !ok {
			got = none
		}
		if got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

func TestRateLimits(t *testing.T) {
	type limit struct {
		limit, remaining int64
		reset            time.Duration
	}
	const no = -1
	tests := []struct {
		name, in string
		want     map[string]limit
	}{
		{"openai", "x-ratelimit-limit-tokens: 100\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 6m0s\nx-ratelimit-reset-requests: 12ms",
			map[string]limit{"tokens": {100, 0, 360_000 * time.Millisecond}, "requests": {no, no, 12 * time.Millisecond}}},
		{"anthropic", "anthropic-ratelimit-input-tokens-limit: 5\nanthropic-ratelimit-input-tokens-remaining: 3\n" +
			"anthropic-ratelimit-input-tokens-reset: 2026-01-02T12:01:00Z\nanthropic-ratelimit-requests-remaining: 0",
			map[string]limit{"input-tokens": {5, 3, time.Minute}, "requests": {no, 0, no}}},
		{"seconds", "x-ratelimit-reset-tokens: 1.5", map[string]limit{"tokens": {no, no, 1500 * time.Millisecond}}},
		{"since 1970", "x-ratelimit-reset-tokens: 1767355260\nx-ratelimit-reset-requests: 1767355260000",
			map[string]limit{"tokens": {no, no, time.Minute}, "requests": {no, no, time.Minute}}},
		{"unknown to azure", "x-ratelimit-limit-tokens: -1\nx-ratelimit-remaining-tokens: -1\nx-ratelimit-reset-tokens: 0",
			map[string]limit{"tokens": {no, no, no}}},
		{"a limit of nothing", "x-ratelimit-limit-tokens: 0", map[string]limit{"tokens": {no, no, no}}},
		{"in the past", "x-ratelimit-reset-tokens: 2026-01-02T11:00:00Z", map[string]limit{"tokens": {no, no, no}}},
		{"nonsense", "x-ratelimit-reset-tokens: soon\nx-ratelimit-remaining-tokens: few\nx-ratelimit-reset: 5\nx-ratelimit-policy-tokens: 1\nanthropic-ratelimit-: 1",
			map[string]limit{"tokens": {no, no, no}}},
		{"none", "content-type: text/plain", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := map[string]limit{}
			for kind, l := range rateLimits(lines(tt.in), noon) {
				flat := limit{no, no, no}
				if l.Limit != nil {
					flat.limit = *l.Limit
				}
				if l.Remaining != nil {
					flat.remaining = *l.Remaining
				}
				if l.Reset != nil {
					flat.reset = *l.Reset
				}
				got[kind] = flat
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("got  %v\nwant %v", got, tt.want)
			}
		})
	}
}

func TestUntilReset(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"x-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 3s\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 9s": 9 * time.Second,
		"x-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 3s\nx-ratelimit-remaining-requests: 1\nx-ratelimit-reset-requests: 9s": 3 * time.Second,
		"x-ratelimit-remaining-tokens: 1\nx-ratelimit-reset-tokens: 3s":                                                                    -1,
		"x-ratelimit-remaining-tokens: 0": -1,
		"x-ratelimit-reset-tokens: 3s":    -1,
	} {
		got, ok := untilReset(rateLimits(lines(in), noon))
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

// headerLines are seeds for the fuzz targets.
var headerLines = []string{
	"retry-after: 2", "retry-after-ms: 1e9", "retry-after: Fri, 02 Jan 2026 12:00:07 GMT", "retry-after: -0",
	"x-ratelimit-reset-tokens: 6m0s", "x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-requests: 9999999999999999999h",
	"anthropic-ratelimit-tokens-reset: 2026-01-02T12:01:00+14:00", "anthropic-ratelimit-tokens-remaining: 0", "x-ratelimit-reset-tokens: 1767355260000",
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range headerLines {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if d, ok := retryAfter(lines(in), noon); d < 0 || !ok && d != 0 {
			t.Errorf("%v, %v", d, ok)
		}
	})
}

func FuzzRateLimits(f *testing.F) {
	f.Add(strings.Join(headerLines, "\n"))
	for _, s := range headerLines {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		limits := rateLimits(lines(in), noon)
		for _, kind := range slices.Sorted(maps.Keys(limits)) {
			l := limits[kind]
			if kind == "" || l.Reset != nil && *l.Reset <= 0 || l.Remaining != nil && *l.Remaining < 0 || l.Limit != nil && *l.Limit < 1 {
				t.Errorf("%q: %v %v %v", kind, l.Limit, l.Remaining, l.Reset)
			}
		}
		if d, ok := untilReset(limits); ok != (d > 0) {
			t.Errorf("%v, %v", d, ok)
		}
	})
}
