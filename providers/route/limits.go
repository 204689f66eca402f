package route

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Limit is what a vendor says about one of its rate limits. Nil is unknown.
type Limit struct {
	Limit, Remaining *int64
	Reset            *time.Duration // until there is something again
}

// rateLimits reads the rate limits out of an answer's headers, by what they count: "requests", "tokens", "input-tokens", ...
// Two families are known: x-ratelimit-remaining-tokens with durations, and anthropic-ratelimit-tokens-remaining with
// instants.
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

// limitField takes the name of a header apart. kind is empty when it is about no limit.
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

// count reads a number. Azure sends -1 where it doesn't know; what is below least is unknown.
func count(s string, least int64) *int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < least {
		return nil
	}
	return &n
}

// reset reads the time until a limit is renewed: "6m0s", an instant, or a number of seconds. What is not in the future is
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

// sinceEpoch is a delay that nobody means: such a number counts from 1970, in seconds or milliseconds.
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

// untilReset is how long it takes until no limit is used up any more; ok is false when none is, or nobody says how long.
func untilReset(limits map[string]Limit) (d time.Duration, ok bool) {
	for _, l := range limits {
		if l.Remaining != nil && *l.Remaining == 0 && l.Reset != nil {
			d, ok = max(d, *l.Reset), true
		}
	}
	return d, ok
}
