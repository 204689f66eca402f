package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// sizes are the units of a size, ordered so that no unit is tried before a longer one that ends with it.
var sizes = []struct {
	unit  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// parseSize parses a size such as "256MiB". A number without a unit is an error, because it is ambiguous.
func parseSize(s string) (int64, error) {
	for _, u := range sizes {
		digits, ok := strings.CutSuffix(s, u.unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || n < 0 || math.IsNaN(n) || n*u.bytes >= math.MaxInt64 {
			return 0, fmt.Errorf("%q is not a size", s)
		}
		return int64(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%q is a size without a known unit", s)
}

// parseDuration parses what [time.ParseDuration] accepts, and whole days and weeks such as "30d" or "2w".
func parseDuration(s string) (time.Duration, error) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		digits, ok := strings.CutSuffix(s, unit)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 || time.Duration(n) > math.MaxInt64/length {
			return 0, fmt.Errorf("%q is not a duration", s)
		}
		return time.Duration(n) * length, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return d, nil
}
