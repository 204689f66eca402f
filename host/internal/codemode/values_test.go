package codemode

import (
	"encoding/json"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
)

func TestFeature(t *testing.T) {
	var state json.RawMessage
	for _, tc := range []struct{ feature, data, want string }{
		{FeatureID, `{"begun":1}`, `{"last":1,"running":[1]}`},
		{"queue", `{"begun":9}`, `{"last":1,"running":[1]}`},
		{FeatureID, `not JSON`, `{"last":1,"running":[1]}`},
		{FeatureID, `{"begun":4}`, `{"last":4,"running":[1,4]}`},
		{FeatureID, `{"ended":1,"stored":{"a":[1],"b":null}}`, `{"values":{"a":[1],"b":null},"last":4,"running":[4]}`},
		{FeatureID, `{"stored":{"c":2},"deleted":["a","x"]}`, `{"values":{"b":null,"c":2},"last":4,"running":[4]}`},
		{FeatureID, `{"ended":7}`, `{"values":{"b":null,"c":2},"last":4,"running":[4]}`},
	} {
		was := string(state)
		next := Feature{}.Apply(state, event.Event{Body: event.FeatureChanged{Feature: tc.feature, Data: json.RawMessage(tc.data)}})
		if string(state) != was {
			t.Fatal("Apply changed its argument")
		}
		if state = next; string(state) != tc.want {
			t.Errorf("after %s of %s: %s, want %s", tc.data, tc.feature, state, tc.want)
		}
	}
}
