package storetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
)

func TestFaults(t *testing.T) {
	for _, test := range []struct{ faults, want string }{
		{"", "++++++"},
		{"write fails at 3", "++-+++"},
		{"write fails from 3", "++----"},
		{"write fails from 2 to 4", "+---++"},
		{"write fails at 1; write fails at 6", "-++++-"},
		{"\nwrite commits and fails at 2\n\nwrite fails at 3\n", "+±-+++"},
	} {
		around, err := Faults(test.faults)
		if err != nil {
			t.Errorf("%q: %v", test.faults, err)
			continue
		}
		got := ""
		for range 6 {
			committed := false
			err := around(func() error { committed = true; return nil })
			switch {
			case committed && err == nil:
				got += "+"
			case committed && errors.Is(err, ErrFault):
				got += "±"
			case errors.Is(err, ErrFault):
				got += "-"
			}
		}
		if got != test.want {
			t.Errorf("%q: %s, want %s", test.faults, got, test.want)
		}
	}
}

func TestFaultsSayWhatTheyDoNotUnderstand(t *testing.T) {
	for text, want := range map[string]string{
		"read fails at 3":             `"write"`,
		"write at 3":                  `"fails"`,
		"write commits at 3":          `"and fails"`,
		"write fails":                 `"at" or "from"`,
		"write fails at":              "number is missing",
		"write fails at zero":         `"zero"`,
		"write fails at 0":            `"0"`,
		"write fails from 3 to 2":     "ends before it begins",
		"write fails at 3 and 4":      `"and 4"`,
		"write fails at 1; nonsense!": "nonsense!",
	} {
		if _, err := Faults(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %s", text, err, want)
		}
	}
}

func TestStoryIsInOrder(t *testing.T) {
	events := Story("t", 2)
	for i, e := range events {
		if e.Seq != uint64(i+1) || e.Thread != event.ThreadID("t") || !e.Durable() || e.Time.IsZero() {
			t.Errorf("event %d = %+v", i+1, e)
		}
	}
	if len(events) != 1+2*10 {
		t.Errorf("%d events", len(events))
	}
}
