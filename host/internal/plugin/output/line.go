package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
)

// Line is a log entry made from a line of standard error.
type Line struct {
	Level   hclog.Level
	Message string
	Fields  []any // alternating keys and values
	// Tagged reports whether the line contains its level.
	Tagged bool
}

// maxFields is the maximum number of fields of one line. Further ones are dropped.
const maxFields = 32

// ParseLine parses the JSON formats of hclog, log/slog and zap, the logfmt of log/slog, and prefixes such as [WARN]. Any other
// line is a debug message. The result contains no control characters.
func ParseLine(line []byte) Line {
	line = bytes.TrimRight(line, "\r")
	if len(line) > 0 && line[0] == '{' {
		if l, ok := parseJSONLine(line); ok {
			return l
		}
	} else if l, ok := parseLogfmt(line); ok {
		return l
	}
	l := Line{Level: hclog.Debug, Message: Clean(line)}
	for _, p := range prefixes {
		if bytes.HasPrefix(line, p.text) {
			l.Level, l.Tagged = p.level, true
		}
	}
	return l
}

var prefixes = [...]struct {
	text  []byte
	level hclog.Level
}{
	{[]byte("[TRACE]"), hclog.Trace},
	{[]byte("[DEBUG]"), hclog.Debug},
	{[]byte("[INFO]"), hclog.Info},
	{[]byte("[WARN]"), hclog.Warn},
	{[]byte("[ERROR]"), hclog.Error},
}

// beginsCrash reports whether a line is the first one of a Go program's crash report, to which all following untagged lines
// belong.
func beginsCrash(line []byte) bool {
	for _, p := range [...]string{"panic: ", "fatal error: ", "SIGABRT: abort", "SIGSEGV: segmentation violation", "unexpected fault address "} {
		if bytes.HasPrefix(line, []byte(p)) {
			return true
		}
	}
	return false
}

// level parses the name of a level in the spellings of common loggers. slog writes offsets, as in "INFO+2".
func level(s string) (hclog.Level, bool) {
	s = strings.ToLower(s)
	if i := strings.IndexAny(s, "+-"); i > 0 {
		s = s[:i]
	}
	switch s {
	case "trace":
		return hclog.Trace, true
	case "debug":
		return hclog.Debug, true
	case "info", "notice":
		return hclog.Info, true
	case "warn", "warning":
		return hclog.Warn, true
	case "error", "dpanic", "panic", "fatal", "critical":
		return hclog.Error, true
	}
	return hclog.NoLevel, false
}

// hclogTime is the time format of hclog.
const hclogTime = "2006-01-02T15:04:05.000000Z07:00"

func parseJSONLine(line []byte) (Line, bool) {
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil || dec.More() {
		return Line{}, false
	}
	// The types are checked because a plugin may write {"@message": 5}.
	text := func(key string) (string, bool) { s, ok := m[key].(string); return s, ok }

	if _, isHclog := m["@message"]; isHclog {
		msg, ok1 := text("@message")
		name, ok2 := text("@level")
		lv, ok3 := level(name)
		stamp, ok4 := text("@timestamp")
		_, err := time.Parse(hclogTime, stamp)
		if !ok1 || !ok2 || !ok3 || !ok4 || err != nil {
			return Line{}, false
		}
		return Line{lv, Clean([]byte(msg)), fields(m, "@message", "@level", "@timestamp"), true}, true
	}
	name, ok := text("level")
	if !ok {
		return Line{}, false
	}
	lv, ok := level(name)
	if !ok {
		return Line{}, false
	}
	for _, key := range [...]string{"msg", "message"} {
		if msg, ok := text(key); ok {
			return Line{lv, Clean([]byte(msg)), fields(m, key, "level", "time", "ts", "timestamp"), true}, true
		}
	}
	return Line{}, false
}

// fields returns the other members of an object as keys and values, sorted by key.
func fields(m map[string]any, except ...string) []any {
	var keys []string
	for k := range m {
		if !slices.Contains(except, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var kv []any
	for _, k := range keys[:min(len(keys), maxFields)] {
		v := m[k]
		switch x := v.(type) {
		case string:
			v = Clean([]byte(x))
		case json.Number, bool, nil:
		default:
			b, err := json.Marshal(x)
			if err != nil {
				b = fmt.Append(nil, x)
			}
			v = Clean(b)
		}
		kv = append(kv, fieldKey(k), v)
	}
	return kv
}

// fieldKey removes the prefix of the log's own keys, such as "@level".
func fieldKey(k string) string {
	return Clean([]byte(strings.TrimLeft(k, "@")))
}

// parseLogfmt parses key=value pairs that include a level and a message. Values may be quoted.
func parseLogfmt(line []byte) (Line, bool) {
	if !bytes.Contains(line, []byte("level=")) || !bytes.Contains(line, []byte("msg=")) {
		return Line{}, false
	}
	var l Line
	var haveMsg bool
	for rest := string(line); rest != ""; {
		rest = strings.TrimLeft(rest, " ")
		eq := strings.IndexByte(rest, '=')
		if eq <= 0 || strings.ContainsAny(rest[:eq], " \"") {
			return Line{}, rest == "" && l.Tagged && haveMsg
		}
		key := rest[:eq]
		value, after, ok := logfmtValue(rest[eq+1:])
		if !ok {
			return Line{}, false
		}
		rest = after
		switch key {
		case "level":
			if l.Level, l.Tagged = level(value); !l.Tagged {
				return Line{}, false
			}
		case "msg":
			l.Message, haveMsg = Clean([]byte(value)), true
		case "time", "ts", "timestamp":
		default:
			if len(l.Fields) < 2*maxFields {
				l.Fields = append(l.Fields, fieldKey(key), Clean([]byte(value)))
			}
		}
	}
	return l, l.Tagged && haveMsg
}

// logfmtValue parses the value at the beginning of s.
func logfmtValue(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		value, rest, _ = strings.Cut(s, " ")
		return value, rest, true
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			if err := json.Unmarshal([]byte(s[:i+1]), &value); err != nil {
				value = s[1:i]
			}
			return value, s[i+1:], true
		}
	}
	return "", "", false
}

// Clean returns output of a plugin as valid UTF-8 without control characters, for display on a terminal.
func Clean(b []byte) string {
	clean := true
	for _, r := range string(b) {
		if r == utf8.RuneError || r != '\t' && !unicode.IsGraphic(r) {
			clean = false
			break
		}
	}
	if clean {
		return string(b)
	}
	var s strings.Builder
	for _, r := range strings.ToValidUTF8(string(b), "\uFFFD") {
		if r == '\t' || unicode.IsGraphic(r) {
			s.WriteRune(r)
			continue
		}
		fmt.Fprintf(&s, "\\u%04x", r)
	}
	return s.String()
}
