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
		{"", "a fork", `{"values":{"b":null,"c":2},"last":4,"running":[4],"copied":4}`},
		{FeatureID, `{"begun":5}`, `{"values":{"b":null,"c":2},"last":5,"running":[4,5],"copied":4}`},
	} {
		was := string(state)
		e := event.Event{Body: event.FeatureChanged{Feature: tc.feature, Data: json.RawMessage(tc.data)}}
		if tc.feature == "" {
			e.Body = event.ThreadForked{}
		}
		next := Feature{}.Apply(state, e)
		if string(state) != was {
			t.Fatal("Apply changed its argument")
		}
		if state = next; string(state) != tc.want {
			t.Errorf("after %s of %s: %s, want %s", tc.data, tc.feature, state, tc.want)
		}
	}
}
