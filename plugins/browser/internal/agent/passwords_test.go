package agent

import (
	"context"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
)

// What a model types into fields for passwords is carried out, and is in nothing that is kept. Another run for the same task asks the model for that
// step only.
func TestPasswordsAreNotKept(t *testing.T) {
	t.Parallel()
	const password, pin = `pass"word & more`, "77"
	secret := named(2, "Password")
	secret.Attributes = map[string]string{"type": "PASSWORD"}
	code := named(3, "Code")
	code.Attributes = map[string]string{"autocomplete": "section-a one-time-code"}
	b := &fake{elements: []history.Candidate{named(1, "User"), secret, code}, page: Page{URL: "https://x/", Text: "the page", Print: "p1"}}
	b.act = func(a history.Action) Outcome {
		if a.Name == "input" {
			b.page.URL = "https://x/?p=pass%22word+%26+more"
		}
		return Outcome{Text: "did " + a.Name + " " + string(a.Args)}
	}
	m := &model{answers: []string{
		step(`{"click":{"index":1}}`),
		step(`{"input":{"text":"pass\"word & more\n","index":2}},{"input":{"index":1,"text":"ada"}}`),
		step(`{"fill_form":{"fields":[{"index":1,"text":"ada"},{"index":3,"text":"77"}]}}`),
		step(`{"click":{"index":1}}`), step(finished),
	}}
	k := task()
	var saved []string
	k.Save = func(_ context.Context, b []byte) error { saved = append(saved, string(b)); return nil }
	r := runTask(t, k, b, m)
	if got := strings.Join(b.acted, " "); !strings.Contains(got, `pass\"word & more\n`) || !strings.Contains(got, `"text":"77"`) {
		t.Errorf("not typed: %s", got)
	}
	file, err := r.History.Save()
	if err != nil {
		t.Fatal(err)
	}
	kept := append(saved, string(file), string(r.Plan))
	for _, text := range kept {
		for _, s := range []string{"word & more", `word \u0026 more`, "word+%26+more", `"` + pin + `"`} {
			if strings.Contains(text, s) {
				t.Errorf("%q is kept: %s", s, text)
			}
		}
	}
	if got := strings.Join(r.History.Hidden(), " "); got != "typed_password typed_password_2" {
		t.Errorf("left out: %s", got)
	}
	m.answers, m.asked = []string{step(`{"input":{"index":2,"text":"another"}}`), step(`{"input":{"index":3,"text":"88"}}`), step(finished)}, nil
	k.Earlier = r.Plan
	if again := runTask(t, k, b, m); again.Known != 2 || again.ModelCalls != 3 || !again.Done {
		t.Errorf("known: %+v", again)
	}
}
