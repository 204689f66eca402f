package eventstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/framing"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// message is one as AWS's own encoder writes it.
func message(t testing.TB, payload string, headers ...string) []byte {
	t.Helper()
	m := eventstream.Message{Payload: []byte(payload)}
	for i := 0; i < len(headers); i += 2 {
		m.Headers.Set(headers[i], eventstream.StringValue(headers[i+1]))
	}
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func event(t testing.TB, name, payload string) []byte {
	t.Helper()
	return message(t, payload, ":event-type", name, ":content-type", "application/json", ":message-type", "event")
}

func newDecoder(maxFrame int) framing.Decoder { return framed{}.Frames(maxFrame) }

// read runs pieces through a decoder and writes its frames down.
func read(d framing.Decoder, pieces ...[]byte) (frames []string, err error) {
	emit := func(f protocol.Frame) error {
		mark := ""
		if f.Failed {
			mark = "!"
		}
		frames = append(frames, mark+f.Event+" "+string(f.Data))
		return nil
	}
	for _, p := range pieces {
		own := bytes.Clone(p)
		if err := d.Write(own, emit); err != nil {
			return frames, err
		}
		for i := range own {
			own[i] = '#' // as the buffer of a reader
		}
	}
	return frames, d.Close(emit)
}

func TestFrames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		stream []byte
		want   string
	}{
		{"an event", event(t, "messageStart", `{"role":"assistant","p":"abc"}`), `messageStart {"role":"assistant","p":"abc"}`},
		{"an event without a payload", event(t, "ping", ""), "ping "},
		{"an exception", message(t, `{"message":"slow down"}`, ":message-type", "exception", ":exception-type", "throttlingException"), `!throttlingException {"message":"slow down"}`},
		{"an error", message(t, "", ":message-type", "error", ":error-code", "Internal", ":error-message", `a "b"`), `!Internal {"message":"a \"b\""}`},
	} {
		got, err := read(newDecoder(1<<20), tt.stream)
		if err != nil || strings.Join(got, "\n") != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	whole := event(t, "a", `{"x":1}`)
	flipped := func(i int) []byte {
		b := bytes.Clone(whole)
		b[i] ^= 1
		return b
	}
	head := func(total, headers uint32) []byte {
		b := binary.BigEndian.AppendUint32(nil, total)
		b = binary.BigEndian.AppendUint32(b, headers)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	}
	for _, tt := range []struct {
		name   string
		stream []byte
		code   llm.ErrorCode
		want   string
	}{
		{"cut off in its head", whole[:7], llm.ErrIncompleteStream, ""},
		{"cut off later", whole[:len(whole)-1], llm.ErrIncompleteStream, ""},
		{"a head that was changed", flipped(2), llm.ErrInvalidOutput, "corrupt header"},
		{"a payload that was changed", flipped(len(whole) - 6), llm.ErrInvalidOutput, "checksum"},
		{"a checksum that was changed", flipped(len(whole) - 1), llm.ErrInvalidOutput, "checksum"},
		{"shorter than itself", head(15, 0), llm.ErrInvalidOutput, "inconsistent"},
		{"headers longer than the whole", head(100, 85), llm.ErrInvalidOutput, "inconsistent"},
		{"endless", head(1<<30, 0), llm.ErrInvalidOutput, "longer than 1000 bytes"},
		{"no stream at all", []byte(`{"message":"not a stream"}`), llm.ErrInvalidOutput, "corrupt header"},
		{"of no type", message(t, "{}", ":event-type", "a"), llm.ErrInvalidOutput, `unknown type ""`},
		{"of a type that nobody knows", message(t, "{}", ":message-type", "song"), llm.ErrInvalidOutput, `unknown type "song"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := read(newDecoder(1000), event(t, "first", "{}"), tt.stream)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Code != tt.code || !strings.Contains(e.Message, tt.want) || len(got) != 1 {
				t.Errorf("%q, error %v, want the first event and %v: %q", got, err, tt.code, tt.want)
			}
		})
	}
}

// However the bytes are split, the frames are the same.
func TestSplits(t *testing.T) {
	t.Parallel()
	var stream []byte
	var want []string
	for i := range 12 {
		payload := `{"n":"` + strings.Repeat("é", i*i) + `"}`
		stream = append(stream, event(t, fmt.Sprint("e", i), payload)...)
		want = append(want, fmt.Sprintf("e%d %s", i, payload))
	}
	rapid.Check(t, func(t *rapid.T) {
		var pieces [][]byte
		for rest := stream; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 200)).Draw(t, "length")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		got, err := read(newDecoder(1<<20), pieces...)
		if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%q, %v", got, err)
		}
	})
}

func TestErrorsOfTheReceiverComeBack(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	err := newDecoder(1<<20).Write(event(t, "a", "{}"), func(protocol.Frame) error { return stop })
	if err != stop {
		t.Errorf("error %v", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(event(f, "messageStart", `{"role":"assistant"}`), 3)
	f.Add(message(f, `{"message":"m"}`, ":message-type", "exception", ":exception-type", "e"), 20)
	f.Add([]byte{0, 0, 0, 16, 0, 0, 0, 0, 5, 194, 72, 235, 125, 152, 200, 255}, 1)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		want, wrong := read(newDecoder(1<<16), stream)
		at := min(max(cut, 0), len(stream))
		got, err := read(newDecoder(1<<16), stream[:at], stream[at:])
		if fmt.Sprint(got, err) != fmt.Sprint(want, wrong) {
			t.Errorf("cut at %d: %q, %v\nin one piece: %q, %v", at, got, err, want, wrong)
		}
		if _, ok := errors.AsType[*llm.Error](wrong); wrong != nil && !ok {
			t.Errorf("the error is a %T: %v", wrong, wrong)
		}
	})
}
