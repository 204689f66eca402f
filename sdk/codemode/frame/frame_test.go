package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestFrames(t *testing.T) {
	b, err := Encode(FromChild{Call: &Call{ID: 7, Namespace: "n", Name: "f", Args: []json.RawMessage{[]byte(`1`)}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Read[FromChild](bytes.NewReader(b))
	if err != nil || m.Call == nil || m.Call.ID != 7 || string(m.Call.Args[0]) != "1" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := Read[FromChild](bytes.NewReader(b[:len(b)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if _, err := Read[FromChild](strings.NewReader("")); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if _, err := Read[FromChild](strings.NewReader("\xff\xff\xff\xff")); !isSize(err) {
		t.Error(err)
	}
	if _, err := Encode(strings.Repeat("x", MaxBytes)); !isSize(err) {
		t.Error(err)
	}
}

func isSize(err error) bool {
	_, ok := errors.AsType[*SizeError](err)
	return ok
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\x00\x00\x00\x0f{\"log\":\"hello\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for {
			m, err := Read[FromChild](r)
			if err != nil {
				return
			}
			if _, err := Encode(m); err != nil {
				t.Errorf("%+v: %v", m, err)
			}
		}
	})
}
