package child

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"modernc.org/quickjs"

	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

// echo is a script that sends back what it gets, as it is and, if that is bytes, as a buffer and as a view of the second half.
const echo = `globalThis.echo = () => t.take().then(v => v instanceof Uint8Array ?
  t.give(v, v.buffer, new DataView(v.buffer, v.length >> 1), v.length) : t.give(v), e => t.give(String(e)))`

// codec runs [echo] in this process.
type codec struct {
	*runner
	sent bytes.Buffer
}

func newCodec(tb testing.TB) *codec {
	tb.Helper()
	vm, err := quickjs.NewVM()
	if err != nil {
		tb.Fatal(err)
	}
	c := &codec{}
	c.runner = &runner{vm: vm, out: &c.sent, timers: map[int64]*timer{}, exit: func(code int) { panic(code) }}
	if err := c.prepare(); err != nil {
		tb.Fatal(err)
	}
	if _, err := c.space.Call(quickjs.UndefinedValue, "t"); err != nil {
		tb.Fatal(err)
	}
	if c.runner.start, err = vm.EvalValue(echo, quickjs.EvalGlobal); err != nil {
		tb.Fatal(err)
	}
	return c
}

// call runs the script's jobs until they are done, and returns the call that it has made.
func (c *codec) call(t *testing.T) *frame.Call {
	t.Helper()
	for n := 1; n > 0; {
		var err error
		if n, err = c.vm.ExecutePendingJobs(); err != nil {
			t.Fatal(err)
		}
	}
	m, err := frame.Read[frame.FromChild](&c.sent)
	if err != nil || m.Call == nil || c.sent.Len() > 0 {
		t.Fatalf("the script sends %+v, %v, and %d bytes more", m, err, c.sent.Len())
	}
	return m.Call
}

// exchange gives the script a value, and returns what it sends back.
func (c *codec) exchange(t *testing.T, value json.RawMessage) []json.RawMessage {
	t.Helper()
	if _, err := c.start.Call(quickjs.UndefinedValue); err != nil {
		t.Fatal(err)
	}
	if err := c.answer(frame.Reply{ID: c.call(t).ID, Value: value}); err != nil {
		t.Fatal(err)
	}
	back := c.call(t)
	if err := c.answer(frame.Reply{ID: back.ID}); err != nil {
		t.Fatal(err)
	}
	return back.Args
}

const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// Bytes are the same on both sides of a script, whatever form they have in it; and no other value is taken for bytes.
func FuzzScriptBytes(f *testing.F) {
	c := newCodec(f)
	f.Add([]byte{}, "")
	f.Add([]byte{1, 2, 3}, "AQID")
	f.Add([]byte{0xff, 0, 0x80, 0x7f}, "AQ==")
	f.Add([]byte("text"), "AQ=")
	f.Add([]byte("a"), "A===")
	f.Add([]byte("b"), "-_+/")
	f.Add([]byte("c"), `{"a":[{"__codemode_binary_v1__":"ArrayBuffer","data":"AQID"},1e400,"\ud800"],"__proto__":{"x":1}}`)
	f.Add([]byte("d"), `{"data":"AQID","n":[-0.5e-3,"é",null,true]}`)
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		value, err := json.Marshal(codemode.Bytes(data))
		if err != nil {
			t.Fatal(err)
		}
		args := c.exchange(t, value)
		for i, want := range [][]byte{data, data, data[len(data)/2:]} {
			var got codemode.Bytes
			if err := json.Unmarshal(args[i], &got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("form %d of %x comes back as %s (%v)", i, data, args[i], err)
			}
		}

		text = strings.ToValidUTF8(text, "")
		value, err = json.Marshal(map[string]string{"__codemode_binary_v1__": "Uint8Array", "data": text})
		if err != nil {
			t.Fatal(err)
		}
		args = c.exchange(t, value)
		var got codemode.Bytes
		wrong := json.Unmarshal(args[0], &got)
		if want, err := base64.StdEncoding.DecodeString(text); err == nil && !strings.ContainsAny(text, "\r\n") && (wrong != nil || !bytes.Equal(got, want)) {
			t.Errorf("%q comes back as %s", text, args[0])
		}
		if len(args) == 1 { // they are not bytes for the script
			var same struct{ Data string }
			if err := json.Unmarshal(args[0], &same); err != nil || same.Data != text {
				t.Errorf("%q, which is not base64, comes back as %s (%v)", text, args[0], err)
			}
		}

		if len(args) > 1 && strings.Trim(text, base64Alphabet+"=") != "" {
			t.Errorf("%q, which is not base64, comes back as the bytes %s", text, args[0])
		}

		if json.Valid([]byte(text)) {
			args := c.exchange(t, json.RawMessage(text))
			var in, out any
			err := json.Unmarshal(args[0], &out)
			// The engine has no numbers and depths that are too large for it; a tag is looked at above.
			plain := json.Unmarshal([]byte(text), &in) == nil && !strings.Contains(text, "__codemode") && strings.Count(text, "[")+strings.Count(text, "{") < 200
			if err != nil || plain && !reflect.DeepEqual(in, out) {
				t.Errorf("%s comes back as %s (%v)", text, args[0], err)
			}
		}
	})
}
