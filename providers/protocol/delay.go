package protocol

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	delayText = regexp.MustCompile(`(?i)\b(?:try|retry|retrying)(?: again)? (?:in|after) ` +
		`((?:\d+(?:\.\d+)?\s*(?:milliseconds?|minutes?|seconds?|hours?|mins?|secs?|ms|s|m|h)\s*)+)`)
	delayPiece = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?)\s*([a-z]+)`)
)

// delayIn finds a delay such as "try again in 11.054s", "in 35 seconds" or "in 1m12s" in a vendor's message.
func delayIn(words string) time.Duration {
	found := delayText.FindStringSubmatch(words)
	if found == nil {
		return 0
	}
	var sum float64
	for _, piece := range delayPiece.FindAllStringSubmatch(found[1], -1) {
		n, err := strconv.ParseFloat(piece[1], 64)
		if err != nil {
			return 0
		}
		sum += n * float64(unit(strings.ToLower(piece[2])))
	}
	const most = 365 * 24 * time.Hour // a longer delay is a misinterpretation
	if sum > float64(most) {
		return 0
	}
	return time.Duration(sum)
}

func unit(name string) time.Duration {
	switch {
	case name == "ms", strings.HasPrefix(name, "milli"):
		return time.Millisecond
	case strings.HasPrefix(name, "m"):
		return time.Minute
	case strings.HasPrefix(name, "h"):
		return time.Hour
	}
	return time.Second
}
