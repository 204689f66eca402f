package control_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// reader reads frames from bytes, a few at a time.
func reader(b []byte, step int) *control.Reader {
	src := bytes.NewReader(b)
	return &control.Reader{Read: func(p []byte) (int, error) {
		return src.Read(p[:min(step, len(p))])
	}}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	words := rapid.SliceOfN(rapid.String(), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		u32, u64 := rapid.Uint32(), rapid.Uint64()
		order := &control.Order{
			Argv: words.Draw(t, "argv"), Env: words.Draw(t, "env"), Cwd: rapid.String().Draw(t, "cwd"),
			Path: rapid.String().Draw(t, "path"), Terminal: rapid.Bool().Draw(t, "terminal"),
			Cgroup: rapid.String().Draw(t, "cgroup"), Groups: words.Draw(t, "groups"), LifelineGraceMS: u32.Draw(t, "grace"),
			Reusable: rapid.Bool().Draw(t, "again"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "limits") {
			order.Rlimits = append(order.Rlimits, control.Rlimit{Resource: u32.Draw(t, "r"), Soft: u64.Draw(t, "s"), Hard: u64.Draw(t, "h")})
		}
		signal := control.Signal{Seq: u32.Draw(t, "seq"), Number: u32.Draw(t, "number"), Group: rapid.Bool().Draw(t, "group")}
		hide := control.Hide{Seq: u32.Draw(t, "hide"), Covers: []control.Cover{{Path: rapid.String().Draw(t, "cover"), Dev: u64.Draw(t, "dev"), Ino: u64.Draw(t, "ino"), WasDev: 1, WasInode: 2, Folder: rapid.Bool().Draw(t, "folder")}}}
		kill := control.Kill{GraceMS: u32.Draw(t, "kill")}
		started := control.Started{PID: u32.Draw(t, "pid")}
		failed := control.Failed{Op: control.Op(rapid.Byte().Draw(t, "op")), Errno: u32.Draw(t, "errno"), Text: rapid.String().Draw(t, "text")}
		exited := control.Exited{
			Code: u32.Draw(t, "code"), Signal: u32.Draw(t, "signal"), UserMicros: u64.Draw(t, "user"),
			SystemMicros: u64.Draw(t, "system"), MaxRSSKiB: u64.Draw(t, "rss"),
		}
		replied := control.Replied{Seq: u32.Draw(t, "reply"), Errno: u32.Draw(t, "replyErrno")}
		left := control.Left{Count: u32.Draw(t, "left")}
		used := control.Used{UserMicros: u64.Draw(t, "usedUser"), SystemMicros: u64.Draw(t, "usedSystem"), MaxRSSKiB: u64.Draw(t, "usedRSS")}
		prepared := control.Prepared{PID: u32.Draw(t, "prepared")}
		var b []byte
		for _, m := range []interface{ Append([]byte) []byte }{order, signal, hide, kill, started, failed, exited, replied, left, used, prepared, control.Free{}} {
			b = m.Append(b)
		}
		r := reader(b, rapid.IntRange(1, 9).Draw(t, "step"))
		same(t, r, order, control.Frame.Order)
		same(t, r, signal, control.Frame.Signal)
		same(t, r, hide, control.Frame.Hide)
		same(t, r, kill, control.Frame.Kill)
		same(t, r, started, control.Frame.Started)
		same(t, r, failed, control.Frame.Failed)
		same(t, r, exited, control.Frame.Exited)
		same(t, r, replied, control.Frame.Replied)
		same(t, r, left, control.Frame.Left)
		same(t, r, used, control.Frame.Used)
		same(t, r, prepared, control.Frame.Prepared)
		same(t, r, control.Free{}, control.Frame.Free)
		if _, err := r.Next(); !errors.Is(err, control.ErrClosed) {
			t.Fatalf("after the last: %v", err)
		}
	})
}

func same[T any](t *rapid.T, r *control.Reader, want T, decode func(control.Frame) (T, error)) {
	t.Helper()
	frame, err := r.Next()
	if err != nil {
		t.Fatalf("%T: %v", want, err)
	}
	got, err := decode(frame)
	if err != nil {
		t.Fatalf("%T: %v", want, err)
	}
	if o, ok := any(want).(*control.Order); ok { // empty and absent lists are one
		for _, list := range []*[]string{&o.Argv, &o.Env, &o.Groups} {
			if len(*list) == 0 {
				*list = nil
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// Each field of an order must come back: a new one without its encoding fails here.
func TestEveryFieldOfAnOrder(t *testing.T) {
	t.Parallel()
	order := &control.Order{}
	v := reflect.ValueOf(order).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case []string:
			f.Set(reflect.ValueOf([]string{"a", ""}))
		case string:
			f.SetString("text")
		case bool:
			f.SetBool(true)
		case uint32:
			f.SetUint(77)
		case *control.Box:
			f.Set(reflect.ValueOf(&control.Box{
				Helper: "h", Args: []string{"x", ""}, Filter: []byte{1, 0, 255}, Handled: 1 << 63, Scoped: 3,
				Rules: []control.Rule{{Path: "/p", Access: 7}, {}}, Covers: []control.Cover{{Path: "/c", Dev: 1, Ino: 2, WasDev: 3, WasInode: 4, Folder: true}, {}}, Hide: []string{"/a", "/b"}, Show: []string{"/a/c"},
				EmptyDirs: "/s", Overlays: []control.Overlay{{Path: "/p", File: "/f", Dev: 5, Ino: 6}, {}}, Listen: true, Map: true, UID: 1000, GID: 1001,
				Isolated: true, KernelReadOnly: true, Write: []string{"/w"}, Tmp: "/t", ShmBytes: 1 << 40, Gate: true,
			}))
		case []control.Rlimit:
			f.Set(reflect.ValueOf([]control.Rlimit{{1, 2, 1<<64 - 1}}))
		default:
			t.Fatalf("no value for field %s", v.Type().Field(i).Name)
		}
	}
	frame, err := reader(order.Append(nil), 4096).Next()
	if err != nil {
		t.Fatal(err)
	}
	got, err := frame.Order()
	if err != nil || !reflect.DeepEqual(got, order) {
		t.Errorf("got %+v, %v, want %+v", got, err, order)
	}
}

func TestReaderErrors(t *testing.T) {
	t.Parallel()
	whole := control.Started{PID: 7}.Append(nil)
	for _, tc := range []struct {
		name string
		data string
		want error
	}{
		{"nothing", "", control.ErrClosed},
		{"half a header", string(whole[:3]), control.ErrMalformed},
		{"half a payload", string(whole[:len(whole)-1]) + "", control.ErrMalformed},
		{"too long", "\xc0\xff\xff\xff\x7f", control.ErrMalformed},
		{"text", "panic: no", control.ErrText},
		{"short text", "no", control.ErrText},
	} {
		if _, err := reader([]byte(tc.data), 100).Next(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	for _, text := range []string{"no", "panic", "panic: out of everything\n\ngoroutine 1\n"} {
		r := reader([]byte(text), 3)
		if _, err := r.Next(); !errors.Is(err, control.ErrText) {
			t.Errorf("%q: %v", text, err)
		}
		if got := r.Text(4096); got != text {
			t.Errorf("text %q, want %q", got, text)
		}
	}
	r := reader([]byte(strings.Repeat("x", 100)), 7)
	r.Next()
	if got := r.Text(10); got != "xxxxxxxxxx" {
		t.Errorf("text %q, want ten", got)
	}
	r = &control.Reader{Read: func([]byte) (int, error) { return 0, errors.New("broken") }}
	if _, err := r.Next(); !errors.Is(err, control.ErrClosed) {
		t.Errorf("a broken connection: %v, want %v", err, control.ErrClosed)
	}
}

func TestMalformedFrames(t *testing.T) {
	t.Parallel()
	if _, err := (control.Frame{Kind: control.KindKill, Payload: []byte{1}}).Started(); !errors.Is(err, control.ErrMalformed) {
		t.Errorf("another kind: %v", err)
	}
	if _, err := (control.Frame{Kind: control.KindOrder, Payload: []byte{control.Version + 1}}).Order(); !errors.Is(err, control.ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	for name, payload := range map[string][]byte{
		"empty":              {},
		"something after":    {7, 0},
		"number without end": {0x80, 0x80},
		"more than 32 bits":  {0xff, 0xff, 0xff, 0xff, 0x7f},
		"more than 64 bits":  bytes.Repeat([]byte{0xff}, 11),
	} {
		if _, err := (control.Frame{Kind: control.KindStarted, Payload: payload}).Started(); !errors.Is(err, control.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A list that claims to be longer than its frame must not be believed.
	if _, err := (control.Frame{Kind: control.KindOrder, Payload: []byte{control.Version, 0xff, 0xff, 0xff, 0xff, 0x0f}}).Order(); !errors.Is(err, control.ErrMalformed) {
		t.Errorf("long list: %v", err)
	}
}

func TestOpNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for op := control.OpUnknown; op <= control.OpTerminal; op++ {
		if seen[op.String()] {
			t.Errorf("name %q twice", op)
		}
		seen[op.String()] = true
	}
	if got := control.Op(200).String(); got != "unknown" {
		t.Errorf("name %q", got)
	}
}

// What decodes must encode to something that decodes to the same.
func FuzzDecode(f *testing.F) {
	f.Add((&control.Order{Argv: []string{"sh"}, Env: []string{"A=b"}, Cwd: "/", Rlimits: []control.Rlimit{{1, 2, 3}}}).Append(nil))
	f.Add(control.Signal{Seq: 1, Number: 2, Group: true}.Append(nil))
	f.Add(control.Exited{Code: 1}.Append(nil))
	f.Add([]byte("panic: text"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := reader(b, 4096)
		for {
			frame, err := r.Next()
			if err != nil {
				if errors.Is(err, control.ErrText) {
					r.Text(100)
				}
				return
			}
			if o, err := frame.Order(); err == nil {
				again, err := reader(o.Append(nil), 4096).Next()
				if err != nil {
					t.Fatal(err)
				}
				if p, err := again.Order(); err != nil || !reflect.DeepEqual(o, p) {
					t.Fatalf("%+v became %+v, %v", o, p, err)
				}
			}
			frame.Signal()
			frame.Kill()
			frame.Started()
			frame.Failed()
			frame.Exited()
			frame.Replied()
			frame.Left()
			frame.Prepared()
		}
	})
}
