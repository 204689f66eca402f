package event

import (
	"strings"
	"testing"
)

func TestMailIsChecked(t *testing.T) {
	good := Mail{Author: "/root/helper_2", Recipient: "/root", Type: MailMessage, Text: "hi"}
	with := func(change func(*Mail)) Mail {
		m := good
		change(&m)
		return m
	}
	for _, tc := range []struct {
		name string
		mail Mail
		want string // part of the error; empty: it is right
	}{
		{"as it should be", good, ""},
		{"an id", with(func(m *Mail) { m.Author = "019a1b2c-0000-7000-8000-000000000000" }), ""},
		{"an answer without a word", with(func(m *Mail) { m.Type, m.Text = MailAnswer, "" }), ""},
		{"no author", with(func(m *Mail) { m.Author = "" }), `invalid author "": not the name`},
		{"an author of two lines", with(func(m *Mail) { m.Author = "a\nSender: b" }), "not the name of an agent"},
		{"an author in an element", with(func(m *Mail) { m.Author = "<a>" }), "not the name of an agent"},
		{"a recipient that goes up", with(func(m *Mail) { m.Recipient = "/root/../x" }), "recipient"},
		{"a path that ends in nothing", with(func(m *Mail) { m.Recipient = "/root/" }), "recipient"},
		{"a long name", with(func(m *Mail) { m.Author = strings.Repeat("a", 257) }), "up to 256"},
		{"another type", with(func(m *Mail) { m.Type = "order" }), `type "order"; next: one of "new_task"`},
		{"no type", with(func(m *Mail) { m.Type = "" }), "type"},
		{"no text", with(func(m *Mail) { m.Text = " \n" }), "mail must not be empty"},
		{"too long", with(func(m *Mail) { m.Text = strings.Repeat("x", 64<<10+1) }), "at most 65536"},
	} {
		err := tc.mail.Check()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
