package codemode

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestBytes(t *testing.T) {
	text, err := json.Marshal(Bytes{1, 2, 3})
	if err != nil || string(text) != `{"__codemode_binary_v1__":"Uint8Array","data":"AQID"}` {
		t.Fatalf("%s, %v", text, err)
	}
	for _, bad := range []string{`"AQID"`, `{}`, `{"__codemode_binary_v1__":"Date","data":"AQID"}`, `{"__codemode_binary_v1__":"ArrayBuffer","data":"!"}`} {
		var b Bytes
		if err := json.Unmarshal([]byte(bad), &b); err == nil {
			t.Errorf("%s was accepted as %v", bad, b)
		}
	}
}

func FuzzBytes(f *testing.F) {
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := json.Marshal(Bytes(data))
		var back Bytes
		if err != nil || json.Unmarshal(text, &back) != nil || !bytes.Equal(back, data) {
			t.Errorf("%s, %v, %v", text, err, back)
		}
		_ = json.Unmarshal(data, &back) // must not panic
	})
}
