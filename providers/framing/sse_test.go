package framing

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// read runs pieces through a decoder and writes down what came: frames as event|data, the end mark as [DONE], an error as
// its code.
func read(f protocol.Framing, maxLine int, pieces ...string) string {
	d, err := New(f, maxLine)
	if err != nil {
		return err.Error()
	}
	var out []string
	emit := func(f protocol.Frame) error {
		switch {
		case f.Done && len(f.Data) == 0:
			out = append(out, "[DONE]")
		case f.Event != "":
			out = append(out, fmt.Sprintf("%s|%s", f.Event, f.Data))
		default:
			out = append(out, string(f.Data))
		}
		return nil
	}
	var buf []byte
	for _, p := range pieces {
		buf = append(buf[:0], p...)
		if err = d.Write(buf, emit); err != nil {
			break
		}
		for i := range buf { // a reader's buffer is used again
			buf[i] = '#'
		}
	}
	if err == nil {
		err = d.Close(emit)
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		out = append(out, "E("+e.Code.String()+")")
	} else if err != nil {
		out = append(out, err.Error())
	}
	return strings.Join(out, " ; ")
}

func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in, want string
	}{
		{"two events", "data: a\n\ndata: b\n\n", "a ; b"},
		{"CRLF, no space", "data:a\r\n\r\n", "a"},
		{"CR alone", "data: a\rdata: b\r\r", "a\nb"},
		{"CR and CRLF mixed", "data: a\r\n\r\n\r\n", "a"},
		{"a CR, then LF CR LF", "data: a\r\n\r\n", "a"},
		{"byte order mark", "\uFEFFdata: a\n\n", "a"},
		{"byte order mark once only", "\uFEFF\uFEFFdata: a\n\ndata: b\n\n", "b"},
		{"half a byte order mark is a field", "\xEF\xBBdata: a\n\ndata: b\n\n", "b"},
		{"a comment", ": keep\n\ndata: a\n\n", "a"},
		{"a comment inside of an event", "data: a\n: keep\ndata: b\n\n", "a\nb"},
		{"a name without data is forgotten", "event: ping\n\ndata: a\n\n", "a"},
		{"a name lasts one event", "event: x\ndata: a\n\ndata: b\n\n", "x|a ; b"},
		{"a name after the data", "data: a\nevent: x\n\n", "x|a"},
		{"two lines of data", "event: x\ndata: {\"k\":\ndata: 1}\n\n", "x|{\"k\":\n1}"},
		{"three lines of data", "data: a\ndata\ndata: b\n\n", "a\n\nb"},
		{"one space goes", "data:  a\n\n", " a"},
		{"no colon", "data\n\n", ""},
		{"no colon, after two lines of data", "data: a\ndata: b\n\ndata\n\n", "a\nb"},
		{"blank data", "data:   \n\n", ""},
		{"complete at the end", `data: {"a":1}`, `{"a":1}`},
		{"complete at the end, with a line end", "data: {\"a\":1}\n", `{"a":1}`},
		{"end mark at the end", "data: [DONE]", "[DONE]"},
		{"cut off", `data: {"a":`, "E(incomplete-stream)"},
		{"cut off after others", "data: a\n\ndata: {\"a\":", "a ; E(incomplete-stream)"},
		{"cut off between lines of data", "data: {\"a\":\ndata: 1", "E(incomplete-stream)"},
		{"cut off inside of a field's name", "data: a\n\nda", "a"},
		{"end mark", "data: [DONE]\n\n", "[DONE]"},
		{"end mark with spaces", "event: x\ndata:[DONE] \n\n", "[DONE]"},
		{"a text that ends so", "data: x[DONE]\n\n", "x[DONE]"},
		{"two bytes a letter", "data: \"é\"\n\n", `"é"`},
		{"no UTF-8", "event: \xff\ndata: \"a\xffb\"\n\n", "\uFFFD|\"a\uFFFDb\""},
		{"other fields", "id: 1\nretry: 9\nfoo: z\ndata: a\n\n", "a"},
		{"names are exact", "DATA: a\ndata : b\n data: c\n\n", ""},
		{"a colon in the value", "data: a:b\n\n", "a:b"},
		{"nothing", "", ""},
		{"empty lines", "\n\r\n\r\r\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			everySplit(t, protocol.FramingSSE, 0, tc.in, tc.want)
		})
	}
}

// everySplit demands the same result in one piece, cut once at each byte, and byte by byte.
func everySplit(t *testing.T, f protocol.Framing, maxLine int, in, want string) {
	t.Helper()
	if got := read(f, maxLine, in); got != want {
		t.Fatalf("%q gives\n%s, want\n%s", in, got, want)
	}
	for i := range len(in) + 1 {
		if got := read(f, maxLine, in[:i], in[i:]); got != want {
			t.Fatalf("%q + %q gives\n%s, want\n%s", in[:i], in[i:], got, want)
		}
	}
	if got := read(f, maxLine, bytewise(in)...); got != want {
		t.Fatalf("%q byte by byte gives\n%s, want\n%s", in, got, want)
	}
}

func bytewise(s string) []string {
	var out []string
	for i := range len(s) {
		out = append(out, s[i:i+1])
	}
	return out
}

func TestCarriageReturnDispatchesAtOnce(t *testing.T) {
	t.Parallel()
	d, err := New(protocol.FramingSSE, 0)
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	for i, step := range []struct {
		in   string
		want int
	}{{"data: a\r", 0}, {"\r", 1}, {"\n", 1}, {"data: b\n\n", 2}} {
		if err := d.Write([]byte(step.in), func(protocol.Frame) error { frames++; return nil }); err != nil {
			t.Fatal(err)
		}
		if frames != step.want {
			t.Errorf("after write %d: %d frames, want %d", i, frames, step.want)
		}
	}
}

// Wherever a socket cuts between the bytes of line ends, an event is dispatched once.
func TestCutsInsideOfLineEnds(t *testing.T) {
	t.Parallel()
	for _, pieces := range [][]string{
		{"data: a\r", "\n\r", "\n"}, {"data: a", "\r\n\r", "\n"}, {"data: a\r", "\n", "\r", "\n"}, {"data: a\r\n", "\r", "", "\n"}, {"data: a\r", "\r", "\n"},
	} {
		if got := read(protocol.FramingSSE, 0, pieces...); got != "a" {
			t.Errorf("%q gives %q, want one event", pieces, got)
		}
	}
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	const limit = 16
	for _, tc := range []struct {
		name string
		f    protocol.Framing
		in   string
		want string
	}{
		{"as long as allowed", protocol.FramingSSE, "data: 0123456789\n\n", "0123456789"},
		{"too long", protocol.FramingSSE, "data: 1\n\ndata: 01234567890\n\n", "1 ; E(invalid-output)"},
		{"too long and never ended", protocol.FramingSSE, ": 0123456789012345", "E(invalid-output)"},
		{"too much data in short lines", protocol.FramingSSE, "data: 01234567\ndata: 01234567\n\n", "E(invalid-output)"},
		{"a line as long as allowed", protocol.FramingNDJSON, "1234567890123456\n", "1234567890123456"},
		{"a line too long", protocol.FramingNDJSON, "1\n12345678901234567\n", "1 ; E(invalid-output)"},
		{"a line too long and never ended", protocol.FramingNDJSON, "12345678901234567", "E(invalid-output)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			everySplit(t, tc.f, limit, tc.in, tc.want)
		})
	}
}

func TestNDJSON(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in, want string
	}{
		{"two lines", "{\"a\":1}\n{\"b\":2}\n", `{"a":1} ; {"b":2}`},
		{"CRLF", "{\"a\":1}\r\n{}\r\n", `{"a":1} ; {}`},
		{"blank lines", "\n{}\n\r\n  \n{}\n", "{} ; {}"},
		{"no last line end", "{}\n{\"a\":1}", `{} ; {"a":1}`},
		{"cut off", "{}\n{\"a\":", "{} ; E(incomplete-stream)"},
		{"no UTF-8", "\"\xff\"\n", "\"\uFFFD\""},
		{"two bytes a letter", "\"é\"\n", `"é"`},
		{"nothing", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			everySplit(t, protocol.FramingNDJSON, 0, tc.in, tc.want)
		})
	}
}

func TestEmitsErrorStops(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	for _, f := range []protocol.Framing{protocol.FramingSSE, protocol.FramingNDJSON} {
		d, err := New(f, 0)
		if err != nil {
			t.Fatal(err)
		}
		frames := 0
		err = d.Write([]byte("data: a\n\ndata: b\n\n"), func(protocol.Frame) error { frames++; return stop })
		if err != stop || frames != 1 {
			t.Errorf("framing %d: %d frames and %v, want 1 and the error of emit", f, frames, err)
		}
	}
	if _, err := New(protocol.FramingUnknown, 0); err == nil {
		t.Error("an unknown framing has a decoder")
	}
}

// events draws a stream of lines as vendors and bad proxies write them.
func events(t *rapid.T) string {
	line := rapid.OneOf(
		rapid.SampledFrom([]string{
			"", "", "", "data: [DONE]", "data", ":", ": ping", "event: x", "event: y", "id: 1", `data: {"a":1}`, "data: é", "\uFEFF", "\xEF\xBB",
		}),
		rapid.StringMatching(`data: ?[a-zé{}" :]{0,12}`),
	)
	var b strings.Builder
	for _, l := range rapid.SliceOfN(line, 0, 12).Draw(t, "lines") {
		b.WriteString(l)
		b.WriteString(rapid.SampledFrom([]string{"\n", "\r\n", "\r", ""}).Draw(t, "end"))
	}
	return b.String()
}

func TestAnySplitGivesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := events(t)
		f := rapid.SampledFrom([]protocol.Framing{protocol.FramingSSE, protocol.FramingNDJSON}).Draw(t, "framing")
		limit := rapid.SampledFrom([]int{0, 9, 30}).Draw(t, "limit")
		want := read(f, limit, in)
		var pieces []string
		for rest := in; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "length")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := read(f, limit, pieces...); got != want {
			t.Fatalf("%q gives\n%s, in one piece\n%s", pieces, got, want)
		}
	})
}

// simple reads server-sent events the plain way, all at once, to hold the decoder against.
func simple(in string) string {
	in = strings.TrimPrefix(in, "\uFEFF")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	var out, data []string
	event := ""
	lines := strings.Split(in, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	cut := false
	dispatch := func() {
		all := strings.ToValidUTF8(strings.Join(data, "\n"), "\uFFFD")
		switch {
		case strings.Trim(all, " \t\n") == "":
		case strings.TrimSpace(all) == "[DONE]":
			out = append(out, "[DONE]")
		case cut && !complete([]byte(all)):
			out = append(out, "E(incomplete-stream)")
		case event != "":
			out = append(out, event+"|"+all)
		default:
			out = append(out, all)
		}
		data, event = nil, ""
	}
	for _, l := range lines {
		field, value, _ := strings.Cut(l, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case l == "":
			dispatch()
		case field == "data":
			data = append(data, value)
		case field == "event":
			event = strings.ToValidUTF8(value, "\uFFFD")
		}
	}
	cut = true
	dispatch()
	return strings.Join(out, " ; ")
}

func TestAgainstThePlainReading(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := events(t)
		if got, want := read(protocol.FramingSSE, 0, in), simple(in); got != want {
			t.Fatalf("%q gives\n%s, read plainly\n%s", in, got, want)
		}
	})
}

func FuzzSSE(f *testing.F) {
	for _, s := range []string{"data: a\r\rdata: b\n\n", "\uFEFFevent: x\ndata: {}\n\ndata: [DONE]", ": c\ndata\ndata: \xff\n\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		want := simple(in)
		if got := read(protocol.FramingSSE, 0, in); got != want {
			t.Fatalf("%q gives\n%s, read plainly\n%s", in, got, want)
		}
		if got := read(protocol.FramingSSE, 0, bytewise(in)...); got != want {
			t.Fatalf("%q byte by byte gives\n%s, read plainly\n%s", in, got, want)
		}
	})
}

func FuzzNDJSON(f *testing.F) {
	f.Add("{}\n{\"a\":1}\r\n\n[")
	f.Fuzz(func(t *testing.T, in string) {
		want := read(protocol.FramingNDJSON, 0, in)
		if got := read(protocol.FramingNDJSON, 0, bytewise(in)...); got != want {
			t.Fatalf("%q byte by byte gives\n%s, at once\n%s", in, got, want)
		}
	})
}

// BenchmarkDecode reads an answer of small deltas as it comes off a socket: in pieces of a kilobyte that end anywhere.
func BenchmarkDecode(b *testing.B) {
	const piece = 1024
	delta := `{"type":"response.output_text.delta","item_id":"msg_0123456789abcdef","output_index":0,"delta":" word"}`
	for name, tc := range map[string]struct {
		f      protocol.Framing
		stream string
	}{
		"SSE":    {protocol.FramingSSE, strings.Repeat("event: response.output_text.delta\ndata: "+delta+"\n\n", 2000)},
		"NDJSON": {protocol.FramingNDJSON, strings.Repeat(delta+"\n", 2000)},
	} {
		b.Run(name, func(b *testing.B) {
			stream := []byte(tc.stream)
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				d, err := New(tc.f, 0)
				if err != nil {
					b.Fatal(err)
				}
				frames := 0
				emit := func(protocol.Frame) error { frames++; return nil }
				for rest := stream; len(rest) > 0; {
					n := min(piece, len(rest))
					if err := d.Write(rest[:n], emit); err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
				if err := d.Close(emit); err != nil || frames != 2000 {
					b.Fatal(frames, err)
				}
			}
		})
	}
}
