package codemode

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// maxSafeInteger is the largest integer that JavaScript represents exactly.
const maxSafeInteger = 1<<53 - 1

// pragma begins the line of options that may precede the code; codex-compatible.
const pragma = "// @exec:"

// source is what a model wrote as the input of exec.
type source struct {
	code  string         // what runs; lines keep their numbers
	yield *time.Duration // nil: the default
	most  *int64         // tokens of the answer; nil: the default
}

const pragmaFields = "supported fields `yield_time_ms` and `max_output_tokens`"

// parseSource separates the options from the code. The errors are for the model; codex-compatible.
func parseSource(text string) (source, error) {
	if strings.TrimSpace(text) == "" {
		return source{}, errors.New("exec expects raw JavaScript source text (non-empty). Options can be given in a first line such as " +
			"`// @exec: {\"yield_time_ms\": 1000, \"max_output_tokens\": 500}`")
	}
	line, rest, more := strings.Cut(text, "\n")
	options, ok := strings.CutPrefix(strings.TrimLeft(strings.TrimSuffix(line, "\r"), " \t"), pragma)
	if !ok {
		return source{code: text}, nil
	}
	if !more || strings.TrimSpace(rest) == "" {
		return source{}, errors.New("exec pragma must be followed by JavaScript source on subsequent lines")
	}
	s := source{code: "\n" + rest}
	return s, s.parseOptions(strings.TrimFunc(options, unicode.IsSpace))
}

func (s *source) parseOptions(options string) error {
	if options == "" {
		return errors.New("exec pragma must be a JSON object with " + pragmaFields)
	}
	var value any
	if err := json.Unmarshal([]byte(options), &value); err != nil {
		return fmt.Errorf("exec pragma must be valid JSON with %s: %w", pragmaFields, err)
	}
	if _, ok := value.(map[string]any); !ok {
		return errors.New("exec pragma must be a JSON object with " + pragmaFields)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(options), &fields); err != nil {
		return fmt.Errorf("exec pragma must be valid JSON with %s: %w", pragmaFields, err)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var n *int64
		switch name {
		case "yield_time_ms", "max_output_tokens":
			if err := json.Unmarshal(fields[name], &n); err != nil {
				return fmt.Errorf("exec pragma fields `yield_time_ms` and `max_output_tokens` must be non-negative safe integers: %w", err)
			}
		default:
			return fmt.Errorf("exec pragma only supports `yield_time_ms` and `max_output_tokens`; got `%s`", name)
		}
		switch {
		case n == nil:
		case *n < 0 || *n > maxSafeInteger:
			return fmt.Errorf("exec pragma field `%s` must be a non-negative safe integer", name)
		case name == "yield_time_ms":
			d := milliseconds(*n)
			s.yield = &d
		default:
			s.most = n
		}
	}
	return nil
}

// milliseconds converts n milliseconds, at most a day, which no cell runs.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(n, 24*60*60*1000)) * time.Millisecond
}
