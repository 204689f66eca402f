package convert_test

import (
	"reflect"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// Encoded messages of views are read as what they were; what is none, or of a later version, is an error.
func TestViewMessages(t *testing.T) {
	for _, want := range []contract.ViewRequest{
		contract.ViewOpen{ThreadID: "t", SessionID: "1", Kinds: []contract.ViewKind{contract.ViewScreen}, Size: contract.ViewSize{Width: 1, Height: 2}},
		contract.ViewInput{Act: contract.ViewBytes{Data: []byte("\x1b[A")}}, contract.ViewControl{Take: true}, contract.ViewControl{}, contract.ViewAck{Number: 7},
	} {
		b, err := convert.MarshalViewRequest(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := convert.UnmarshalViewRequest(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v is read as %+v, %v", want, got, err)
		}
	}
	for _, want := range []contract.ViewEvent{
		contract.ViewFrame{Number: 3, Output: &contract.ViewOutput{Offset: 1 << 40, Data: []byte("\xff")}}, contract.ViewClosed{Reason: "over"},
		contract.ViewState{Title: "a", Dialog: &contract.ViewDialog{Kind: "alert", Message: "m"}},
	} {
		b, err := convert.MarshalViewEvent(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := convert.UnmarshalViewEvent(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v is read as %+v, %v", want, got, err)
		}
	}
	for _, b := range [][]byte{nil, []byte("garbage"), {0xfa, 0x7f, 0}} { // the last is field 2047
		if r, err := convert.UnmarshalViewRequest(b); err == nil {
			t.Errorf("%q is the request %+v", b, r)
		}
		if e, err := convert.UnmarshalViewEvent(b); err == nil {
			t.Errorf("%q is the event %+v", b, e)
		}
	}
}
