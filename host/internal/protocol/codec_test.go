package protocol

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// messages returns the types of all messages.
func messages() []reflect.Type {
	var out []reflect.Type
	for _, m := range Methods() {
		out = append(out, m.Params, m.Result)
	}
	for _, n := range Notifications() {
		out = append(out, n.Params)
	}
	for _, r := range ServerRequests() {
		out = append(out, r.Params, r.Result)
	}
	return out
}

// draw fills a value of any shape.
func draw(t *rapid.T, v reflect.Value, s *shape) {
	switch s.kind {
	case anyKind:
		v.SetBytes([]byte(rapid.SampledFrom([]string{`{"a":[1,2.5,"x",null]}`, `[]`, `"text"`, `true`, `-7`, `{"b":{"z":1,"a":2}}`}).Draw(t, "raw")))
	case boolKind:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case intKind:
		v.SetInt(rapid.Int64Range(-1<<(s.bits-1), 1<<(s.bits-1)-1).Draw(t, "int"))
	case uintKind:
		v.SetUint(rapid.Uint64Range(0, 1<<s.bits-1).Draw(t, "uint"))
	case floatKind:
		v.SetFloat(rapid.Float64Range(-1e9, 1e9).Draw(t, "float"))
	case stringKind:
		v.SetString(rapid.String().Draw(t, "string"))
	case enumKind:
		v.SetString(rapid.SampledFrom(s.values).Draw(t, "enum"))
	case pointerKind:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(s.element.t))
			draw(t, v.Elem(), s.element)
		}
	case nullableKind:
		if rapid.Bool().Draw(t, "set") {
			v.Field(0).SetBool(true)
			draw(t, v.Field(1), pointerTo(s.element))
		}
	case listKind:
		for i := range rapid.IntRange(0, 2).Draw(t, "elements") {
			v.Set(reflect.Append(v, reflect.Zero(s.element.t)))
			draw(t, v.Index(i), s.element)
		}
	case mapKind:
		v.Set(reflect.MakeMap(s.t))
		for range rapid.IntRange(0, 2).Draw(t, "members") {
			e := reflect.New(s.element.t).Elem()
			draw(t, e, s.element)
			v.SetMapIndex(reflect.ValueOf(rapid.String().Draw(t, "key")).Convert(s.t.Key()), e)
		}
	case objectKind:
		drawFields(t, v, s)
	case unionKind:
		drawFields(t, v, s)
		m := s.members[rapid.SampledFrom(slices.Sorted(maps.Keys(s.members))).Draw(t, "member")]
		body := reflect.New(m.t).Elem()
		draw(t, body, m)
		v.FieldByIndex(s.body).Set(body)
	case choiceKind:
		kind := rapid.SampledFrom(s.values).Draw(t, "kind")
		v.Field(0).SetString(kind)
		if d, ok := s.details[kind]; ok {
			p := reflect.New(d.shape.t)
			draw(t, p.Elem(), d.shape)
			v.Field(d.field).Set(p)
		}
	case alternativesKind:
		form := rapid.SampledFrom(s.options).Draw(t, "form")
		x := reflect.New(form.t).Elem()
		draw(t, x, form)
		raw, err := Marshal(x.Interface())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
			t.Fatal(err)
		}
	}
}

func drawFields(t *rapid.T, v reflect.Value, s *shape) {
	for _, f := range s.fields {
		draw(t, v.FieldByIndex(f.index), f.shape)
	}
}

func drawMessage(t *rapid.T) (reflect.Type, []byte) {
	typ := rapid.SampledFrom(messages()).Draw(t, "type")
	v := reflect.New(typ)
	draw(t, v.Elem(), shapeOf(typ))
	b, err := Marshal(v.Interface())
	if err != nil {
		t.Fatalf("%s: %v", typ, err)
	}
	return typ, b
}

func TestMessagesSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ, b := drawMessage(t)
		if !json.Valid(b) || bytes.ContainsAny(b, "\n\r") {
			t.Fatalf("%s: not a line of JSON: %q", typ, b)
		}
		back := reflect.New(typ)
		if err := decodeParams(back.Elem(), b); err != nil {
			t.Fatalf("%s: %v in %s", typ, err, b)
		}
		if again, err := Marshal(back.Interface()); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s, %v\n got %s\nwant %s", typ, err, again, b)
		}
		plain := reflect.New(typ)
		if err := json.Unmarshal(b, plain.Interface()); err != nil {
			t.Fatalf("%s: encoding/json: %v in %s", typ, err, b)
		}
		if again, err := Marshal(plain.Interface()); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s by encoding/json, %v\n got %s\nwant %s", typ, err, again, b)
		}
	})
}

// FuzzDecode decodes arbitrary parameters of every method. What is accepted stays the same when it is written and read again.
func FuzzDecode(f *testing.F) {
	for i, m := range Methods() {
		f.Add(uint16(i), []byte(`{}`))
		sample := rapid.Custom(func(t *rapid.T) []byte {
			v := reflect.New(m.Params)
			_ = rapid.Bool().Draw(t, "something, also for types without fields")
			draw(t, v.Elem(), shapeOf(m.Params))
			b, err := Marshal(v.Interface())
			if err != nil {
				t.Fatal(err)
			}
			return b
		})
		for seed := range 3 {
			f.Add(uint16(i), sample.Example(seed))
		}
	}
	f.Fuzz(func(t *testing.T, i uint16, raw []byte) {
		m := Methods()[int(i)%len(Methods())]
		NeedsExperimental(m, raw)
		p, err := m.Decode(raw)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without text")
			}
			return
		}
		b, err := Marshal(p)
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		again, err := m.Decode(b)
		if err != nil {
			t.Fatalf("%s: %v in %s", m.Name, err, b)
		}
		if c, err := Marshal(again); err != nil || !bytes.Equal(b, c) {
			t.Fatalf("%s, %v\n got %s\nwant %s", m.Name, err, c, b)
		}
	})
}

// FuzzMessages reads arbitrary JSON as every message: answers of clients strictly, and all messages as those of a newer program.
func FuzzMessages(f *testing.F) {
	types := messages()
	for i, typ := range types {
		sample := rapid.Custom(func(t *rapid.T) []byte {
			_ = rapid.Bool().Draw(t, "something, also for types without fields")
			v := reflect.New(typ)
			draw(t, v.Elem(), shapeOf(typ))
			b, err := Marshal(v.Interface())
			if err != nil {
				t.Fatal(err)
			}
			return b
		})
		f.Add(uint16(i), sample.Example(i))
	}
	f.Fuzz(func(t *testing.T, i uint16, raw []byte) {
		typ := types[int(i)%len(types)]
		if v := reflect.New(typ); decodeParams(v.Elem(), raw) == nil {
			again := reflect.New(typ)
			b, err := Marshal(v.Interface())
			if err != nil || decodeParams(again.Elem(), b) != nil {
				t.Fatalf("%s does not survive: %s, %v", typ, b, err)
			}
		}
		v := reflect.New(typ)
		if json.Unmarshal(raw, v.Interface()) != nil {
			return
		}
		if b, err := Marshal(v.Interface()); err != nil || !json.Valid(b) {
			t.Fatalf("%s: %s, %v", typ, b, err)
		}
	})
}

// FuzzScan compares the scanner with encoding/json.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{}`, `[]`, `{"a":1,"b":[{"c":"]}\\\""}],"d":null}`, " [1 , \"x\" ,{ } ] ", `{"\u0061":{},"":[[]]}`, `[-1.5e3,true,false]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if raw = bytes.TrimSpace(raw); !json.Valid(raw) {
			return
		}
		switch raw[0] {
		case '{':
			var want map[string]json.RawMessage
			if err := json.Unmarshal(raw, &want); err != nil {
				return // too deep
			}
			got := map[string]json.RawMessage{}
			for k, v := range members(raw) {
				got[k] = v
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s\n got %q\nwant %q", raw, got, want)
			}
		case '[':
			var want []json.RawMessage
			if err := json.Unmarshal(raw, &want); err != nil {
				return
			}
			got := []json.RawMessage{}
			for v := range elements(raw) {
				got = append(got, v)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s\n got %q\nwant %q", raw, got, want)
			}
		}
	})
}

func BenchmarkMarshalDelta(b *testing.B) {
	n := AgentMessageDeltaNotification{"019a-thread", "019a-turn", "msg_1", "a few words of text"}
	for b.Loop() {
		if _, err := Marshal(n); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeTurnStart(b *testing.B) {
	raw := []byte(`{"threadId":"019a","input":[{"type":"text","text":"hello"}],"approvalPolicy":"on-request"}`)
	for b.Loop() {
		if _, err := MethodTurnStart.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeImage(b *testing.B) {
	raw := []byte(`{"threadId":"019a","input":[{"type":"image","url":"data:image/png;base64,` + string(bytes.Repeat([]byte("A"), 10<<20)) + `"}]}`)
	for b.Loop() {
		if _, err := MethodTurnStart.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}
