package kernel

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestFrames(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"op":"result","id":"c","data":{"text/plain":"42"}}`: "",
		`{"op":"chunk","seq":1,"data":"eA=="}`:                "",
		`{"op":"chunk","seq":1,"last":true}`:                  "",
		`{"op":"future","unknown":[1]}`:                       "",
		`{"op":"result","data":"text"}`:                       "result: data",
		`{"op":"chunk","data":"%"}`:                           "chunk: data",
		`{"op":"progress","done":-1}`:                         "out of range",
		`{}`:                                                  "no op",
		`one`:                                                 "invalid frame",
	} {
		f, err := parseFrame([]byte(line))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", line, err, want)
		case f != nil && f.Op == "chunk" && !f.Last && string(f.Chunk) != "x":
			t.Errorf("chunk %q", f.Chunk)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	r, buf := bufio.NewReader(strings.NewReader("a\n\n"+long+"\nrest")), new(bytes.Buffer)
	for _, want := range []string{"a", "", long} {
		if line, err := readLine(r, buf); string(line) != want || err != nil {
			t.Fatalf("%.20q, %v; want %.20q", line, err, want)
		}
	}
	if _, err := readLine(r, buf); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a line: %v", err)
	}
	r = bufio.NewReader(io.MultiReader(strings.NewReader(strings.Repeat("x", maxFrame)), strings.NewReader("y\n")))
	if _, err := readLine(r, buf); !errors.Is(err, errLongFrame) {
		t.Errorf("a long line: %v", err)
	}
	if _, err := (request{Op: "exec", Code: strings.Repeat("x", maxFrame)}).encode(); !errors.Is(err, errLongFrame) {
		t.Errorf("a long request: %v", err)
	}
}

// Whatever a worker sends, reading it neither fails in another way than by an error, nor takes more memory than a frame may have; and
// every request is one line that says the same.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"op":"result","id":"c","data":{"text/plain":"42"}}`+"\n"+`{"op":"chunk","data":"eA=="}`+"\n"), "x = 1\n\x00\u2028")
	f.Add([]byte("{\"op\":\"progress\",\"done\":1e400}\n{"), "'\xff'")
	f.Fuzz(func(t *testing.T, stream []byte, code string) {
		r, buf := bufio.NewReaderSize(bytes.NewReader(stream), 16), new(bytes.Buffer)
		for {
			line, err := readLine(r, buf)
			if err != nil {
				break
			}
			if fr, err := parseFrame(line); err == nil && fr.Op == "" {
				t.Error("a frame without op")
			}
		}
		b, err := request{Op: "exec", Code: code}.encode()
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.IndexByte(b, '\n'); n != len(b)-1 {
			t.Errorf("the request has a line end at %d of %d", n, len(b))
		}
		var back request
		if err := json.Unmarshal(b, &back); err != nil || back.Code != string([]rune(code)) {
			t.Errorf("%v: %q, want %q", err, back.Code, code)
		}
	})
}
