package output

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
)

func TestParseLine(t *testing.T) {
	for _, c := range []struct {
		line, want string // level, message, fields
	}{
		// What go-plugin does as well.
		{"plain", "debug|plain"},
		{"[TRACE] a", "trace|[TRACE] a"},
		{"[DEBUG] a", "debug|[DEBUG] a"},
		{"[INFO] a", "info|[INFO] a"},
		{"[WARN] careful", "warn|[WARN] careful"},
		{"[ERROR] a", "error|[ERROR] a"},
		{`{"@level":"info","@message":"hi","@timestamp":"2026-01-02T03:04:05.000000Z","k":1}`, "info|hi|k=1"},
		{`{"@level":"info","@message":"hi","@timestamp":"2026-01-02T03:04:05Z","k":1}`, `debug|{"@level":"info","@message":"hi","@timestamp":"2026-01-02T03:04:05Z","k":1}`},
		{"[1,2]", "debug|[1,2]"},
		{"panic: boom", "debug|panic: boom"}, // what follows from it is the reader's to know
		// What crashes it.
		{`{"@message":5}`, `debug|{"@message":5}`},
		{`{"@level":5,"@message":"a","@timestamp":"2026-01-02T03:04:05.000000Z"}`, `debug|{"@level":5,"@message":"a","@timestamp":"2026-01-02T03:04:05.000000Z"}`},
		{`{"@level":"info","@message":"a","@timestamp":5}`, `debug|{"@level":"info","@message":"a","@timestamp":5}`},
		{`{"@message":null}`, `debug|{"@message":null}`},
		// Other loggers.
		{`{"msg":"x","level":"info"}`, "info|x"},
		{`{"time":"2026-01-02T03:04:05Z","level":"ERROR","msg":"broken","err":"EOF","n":[1,2]}`, "error|broken|err=EOF n=[1,2]"},
		{`{"level":"warn","ts":1767323045.1,"caller":"a.go:1","msg":"zap says"}`, "warn|zap says|caller=a.go:1"},
		{`{"level":"INFO+2","msg":"between"}`, "info|between"},
		{`{"level":"fatal","message":"zerolog says"}`, "error|zerolog says"},
		{`time=2026-01-02T03:04:05Z level=INFO msg="two words" k=v q="a \"b\""`, `info|two words|k=v q=a "b"`},
		{`level=warn msg=short`, "warn|short"},
		{`msg=x level=nonsense`, "debug|msg=x level=nonsense"},
		{`the level=info and msg= in prose`, "debug|the level=info and msg= in prose"},
		{`level=info msg="unclosed`, `debug|level=info msg="unclosed`},
		// No JSON after all.
		{`{"msg":"x","level":"info"} and more`, `debug|{"msg":"x","level":"info"} and more`},
		{`{"level":"info"}`, `debug|{"level":"info"}`},
		{`{"msg":"x","level":"loud"}`, `debug|{"msg":"x","level":"loud"}`},
		{`{`, "debug|{"},
		{"", "debug|"},
		{"with a return\r", "debug|with a return"},
		{"tab\tstays", "debug|tab\tstays"},
		{"\x1b[31mred\x1b[0m\x00\xff", "debug|\\u001b[31mred\\u001b[0m\\u0000\uFFFD"},
		{`{"level":"info","msg":"a\u001b[2J","k\u0007":"v\u0000"}`, `info|a\u001b[2J|k\u0007=v\u0000`},
		{`{"level":"info","msg":"a","@level":"error"}`, "info|a|level=error"},
	} {
		l := ParseLine([]byte(c.line))
		got := l.Level.String() + "|" + l.Message
		for i := 0; i < len(l.Fields); i += 2 {
			sep := " "
			if i == 0 {
				sep = "|"
			}
			got += sep + fmt.Sprint(l.Fields[i], "=", l.Fields[i+1])
		}
		if got != c.want {
			t.Errorf("%q:\n got %q\nwant %q", c.line, got, c.want)
		}
	}
}

func TestFieldsAreBounded(t *testing.T) {
	var s strings.Builder
	s.WriteString(`{"level":"info","msg":"m"`)
	for i := range 500 {
		fmt.Fprintf(&s, `,"k%d":%d`, i, i)
	}
	s.WriteString("}")
	if n := len(ParseLine([]byte(s.String())).Fields); n != 2*maxFields {
		t.Errorf("%d values", n)
	}
	if n := len(ParseLine([]byte("level=info msg=m" + strings.Repeat(" k=v", 500))).Fields); n != 2*maxFields {
		t.Errorf("%d values in logfmt", n)
	}
}

func FuzzParseLine(f *testing.F) {
	for _, s := range []string{
		"plain", `{"@message":5}`, `{"@level":"info","@message":"hi","@timestamp":"2026-01-02T03:04:05.000000Z","k":1}`,
		`level=info msg="a b" k=v`, "[WARN] x", "\xff\x00\x1b", `{"level":"info","msg":"x","a":{"b":[null]}}`, "panic: x", `level=info msg="\`, "{}", "=",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		l := ParseLine(line)
		if l.Level < hclog.Trace || l.Level > hclog.Error {
			t.Errorf("level %d", l.Level)
		}
		if len(l.Fields)%2 != 0 || len(l.Fields) > 2*maxFields {
			t.Errorf("%d values", len(l.Fields))
		}
		shown := []string{l.Message}
		for _, v := range l.Fields {
			if s, ok := v.(string); ok {
				shown = append(shown, s)
			}
		}
		for _, s := range shown {
			if !utf8.ValidString(s) {
				t.Errorf("invalid UTF-8: %q", s)
			}
			for _, r := range s {
				if r != '\t' && !unicode.IsGraphic(r) {
					t.Errorf("%q holds %U", s, r)
				}
			}
		}
		// hclog must take whatever comes out.
		hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: discardWriter{}, JSONFormat: true}).Log(l.Level, l.Message, l.Fields...)
	})
}

type discardWriter struct{}

func (discardWriter) Write(p []byte) (int, error) { return len(p), nil }
