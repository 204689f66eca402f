package route

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Limit is one of a vendor's rate limits. Nil means unknown.
type Limit struct {
	Limit, Remaining *int64
	Reset            *time.Duration // until it is replenished
}

// rateLimits parses rate limits in a response's headers, by what they count: "requests", "tokens", "input-tokens", ... It supports
// x-ratelimit-remaining-tokens with durations, and anthropic-ratelimit-tokens-remaining with times.
func rateLimits(h http.Header, now time.Time) map[string]Limit {
	var out map[string]Limit
	for name, values := range h {
		kind, field := limitField(strings.ToLower(name))
		if kind == "" || len(values) == 0 {
			continue
		}
		l := out[kind]
		switch field {
		case "limit":
			l.Limit = count(values[0], 1)
		case "remaining":
			l.Remaining = count(values[0], 0)
		case "reset":
			l.Reset = reset(values[0], now)
		}
		if out == nil {
			out = map[string]Limit{}
		}
		out[kind] = l
	}
	return out
}

// limitField splits the name of a header. kind is empty if it is not about a limit.
func limitField(name string) (kind, field string) {
	if rest, ok := strings.CutPrefix(name, "x-ratelimit-"); ok {
		field, kind, _ = strings.Cut(rest, "-")
	} else if rest, ok := strings.CutPrefix(name, "anthropic-ratelimit-"); ok {
		i := max(0, strings.LastIndexByte(rest, '-'))
		kind, field = rest[:i], strings.TrimPrefix(rest[i:], "-")
	}
	switch field {
	case "limit", "remaining", "reset":
		return kind, field
	}
	return "", ""
}

// count parses a number. Azure sends -1 for unknown; values below least are unknown.
func count(s string, least int64) *int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < least {
		return nil
	}
	return &n
}

// reset parses the time until a limit is replenished: "6m0s", a time, or a number of seconds. A time that is not in the future is
// unknown.
func reset(s string, now time.Time) *time.Duration {
	s = strings.TrimSpace(s)
	d, err := time.ParseDuration(s)
	if err != nil {
		var ok bool
		if d, ok = duration(s, time.Second); !ok || d > sinceEpoch {
			at, err := instant(s)
			if err != nil {
				return nil
			}
			d = at.Sub(now)
		}
	}
	if d <= 0 {
		return nil
	}
	return &d
}

// sinceEpoch is an implausible delay: such a number is a Unix time, in seconds or milliseconds.
const sinceEpoch = 20 * 365 * 24 * time.Hour

func instant(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		return time.Parse(time.RFC3339, s)
	case n > 1e11:
		return time.UnixMilli(n), nil
	}
	return time.Unix(n, 0), nil
}

// untilReset returns the time until no limit is exhausted. ok is false if none is, or the time is unknown.
func untilReset(limits map[string]Limit) (d time.Duration, ok bool) {
	for _, l := range limits {
		if l.Remaining != nil && *l.Remaining == 0 && l.Reset != nil {
			d, ok = max(d, *l.Reset), true
		}
	}
	return d, ok
}
