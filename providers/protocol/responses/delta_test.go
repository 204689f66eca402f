package responses

import (
	"encoding/json"
	"reflect"
	"testing"
)

var deltas = []struct {
	name, data string
	fast       bool
}{
	{"as OpenAI sends them", `{"type":"response.output_text.delta","sequence_number":12,"item_id":"m_1","output_index":0,"content_index":1,"delta":" word","logprobs":[],"obfuscation":"a1"}`, true},
	{"in another order, with spaces", "{ \"delta\" : \"é\", \"summary_index\":\t3 ,\"item_id\":\"rs_1\"\r\n}  ", true},
	{"escapes", `{"type":"t","delta":"a\n\"\\\u00e9\ud83d\ude00<"}`, true},
	{"an escape of half a pair", `{"delta":"\ud83d"}`, true},
	{"a bad escape", `{"delta":"\x"}`, false},
	{"text that is no UTF-8", "{\"delta\":\"\xff\"}", false},
	{"a line break in a text", "{\"delta\":\"\n\"}", false},
	{"unknown fields", `{"moon":1000000000000,"delta":"x","sun":[],"phase":"full","visible":true,"since":null,"e":false}`, true},
	{"an unknown field with more in it", `{"delta":"x","moon":{"phase":1}}`, false},
	{"a field of other frames", `{"delta":"x","text":"y"}`, false},
	{"a field in another case", `{"Delta":"x"}`, false},
	{"an escaped name", `{"d\u0065lta":"x"}`, false},
	{"logprobs", `{"delta":"x","logprobs":[{"token":"x"}]}`, false},
	{"null", `{"delta":null,"item_id":null}`, false},
	{"a number of another kind", `{"output_index":-1}`, false},
	{"a number that is too long", `{"output_index":12345678901}`, false},
	{"a number with a zero before it", `{"output_index":01}`, false},
	{"a number with a fraction", `{"output_index":1.0}`, false},
	{"the same field twice", `{"delta":"x","delta":"y"}`, true},
	{"more behind it", `{"delta":"x"}{}`, false},
	{"cut off", `{"delta":"x`, false},
	{"cut off in an escape", `{"delta":"\`, false},
	{"empty", `{}`, false},
	{"nothing", ``, false},
}

// fastIsGeneral demands that the fast way gives what the general way gives, or gives up.
func fastIsGeneral(t *testing.T, data []byte) (fast bool) {
	t.Helper()
	var r deltaReader
	got := wireFrame{OutputIndex: -1}
	if !r.read(data, &got) {
		return false
	}
	want := wireFrame{OutputIndex: -1}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatalf("%q was read, and is refused: %v", data, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q\ngot  %+v\nwant %+v", data, got, want)
	}
	return true
}

func TestDeltasAreReadFast(t *testing.T) {
	t.Parallel()
	for _, tc := range deltas {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if fast := fastIsGeneral(t, []byte(tc.data)); fast != tc.fast {
				t.Errorf("fast = %v, want %v", fast, tc.fast)
			}
		})
	}
}

func TestWhatADeltaReaderRemembersIsReplaced(t *testing.T) {
	t.Parallel()
	var r deltaReader
	for _, id := range []string{"a", "a", "b", "", "a"} {
		var f wireFrame
		if !r.read([]byte(`{"item_id":"`+id+`"}`), &f) || f.ItemID != id {
			t.Errorf("item_id %q, want %q", f.ItemID, id)
		}
	}
}

func FuzzDelta(f *testing.F) {
	for _, tc := range deltas {
		f.Add([]byte(tc.data))
	}
	f.Fuzz(func(t *testing.T, data []byte) { fastIsGeneral(t, data) })
}
