package redact_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/redact"
	"pgregory.net/rapid"
)

func known(values ...string) *redact.Redactor {
	r := &redact.Redactor{}
	r.Add(values...)
	return r
}

// What looks like a secret, in what a model reads and in a log. § stands for the mark.
func TestPatterns(t *testing.T) {
	t.Parallel()
	const same = "="
	for _, tc := range []struct{ text, read, logged string }{
		// As the reference has them.
		{"Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer §", same},
		{"Bearer abcdefghijklmno", same, same},
		{"bearer  AbC.def_ghi-jkl~mno+pqr/stu=", "bearer  §", same},
		{"sk-abcdefghij0123456789", "§", same},
		{"key sk-abcdefghij0123456789ABC.", "key §.", same},
		{"sk-abcdefghij", same, same},
		{"AKIAABCDEFGHIJKLMNOP", "§", same},
		{"AKIAABCDEFGH", same, same},
		{"akiaABCDEFGHIJKLMNOP", same, same},
		{"password=hunter2hunter2", "password=§", same},
		{"api_key: abcd1234", "api_key: §", same},
		{"API-KEY = 'abcd1234'", "API-KEY = '§'", same},
		{"apikey=abc1234", same, same}, // seven
		// Beyond it.
		{`{"token": "abcd1234efgh"}`, `{"token": "§"}`, same},
		{`{\"token\": \"abcd1234efgh\"}`, `{\"token\": \"§\"}`, `{\"token\": \"§"}`},
		{"GITHUB_TOKEN=abcd1234efgh", "GITHUB_TOKEN=§", same},
		{"ghp_" + strings.Repeat("a1", 18), "§", same},
		{"github_pat_" + strings.Repeat("a1", 18), "§", same},
		{"sk-proj-abc_DEF-0123456789", "§", same},
		{"token=ghp_" + strings.Repeat("ab", 18), "token=§", same},
		{"token: Bearer abcdefghijklmnop", "token: Bearer §", same},
		{"Bearer\tabcdefghijklmnop\nBearer abcdefghijklmnop", "Bearer\t§\nBearer §", same},
		// A program's text is not changed where a model reads it.
		{"token := parse(source)", same, "token := §"},
		{"token = client2.NewToken", same, "token = §"},
		{"secret = base64(x1)", same, "secret = §"},
		{"password: string", same, same},
		{"password: string | undefined", same, same},
		{"tokens = 12345678a", same, same},
		{"token 12345678a", same, same},
		{"if token == nil", same, same},
		{"task-management-configuration-2026-file", same, same},
		{"disk-abcdefghij0123456789", same, same},
		{"a sk-folding-cube-animation-element", same, same},
		{"max_token=100000000", same, "max_token=§"},
		{"the bearer of this", same, same},
		{"", same, same},
	} {
		read, logged := strings.ReplaceAll(tc.read, "§", redact.Placeholder), strings.ReplaceAll(tc.logged, "§", redact.Placeholder)
		if tc.read == same {
			read = tc.text
		}
		if tc.logged == same {
			logged = read
		}
		r := &redact.Redactor{}
		if got := r.Text(tc.text); got != read {
			t.Errorf("%q is read as %q, want %q", tc.text, got, read)
		}
		var log bytes.Buffer
		if n, err := r.Writer(&log).Write([]byte(tc.text)); n != len(tc.text) || err != nil || log.String() != logged {
			t.Errorf("%q is logged as %q, want %q; %d, %v", tc.text, log.String(), logged, n, err)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 40)
	for _, tc := range []struct {
		values     []string
		text, want string
	}{
		{[]string{"my own secret"}, "it is my own secret, and my own secret.", "it is §, and §."},
		{[]string{"shortish", "short", ""}, "short shortish", "short §"},
		{[]string{"abcdefgh", "abcdefghijkl"}, "abcdefghijkl abcdefghij", "§ §ij"},
		{[]string{"abcdefgh", "efghijkl"}, "abcdefghijkl", "§"},
		{[]string{"abcdabcd"}, "abcdabcdabcd", "§"},
		{[]string{"first line of it\nsecond line of it\n"}, "a\nsecond line of it\nb", "a\n§\nb"},
		{[]string{"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\n-----END PRIVATE KEY-----"}, "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\n", "-----BEGIN PRIVATE KEY-----\n§\n"},
		{[]string{long}, "<" + long + ">", "<§>"},
		{[]string{"geheimnisträger"}, "ein geheimnisträger", "ein §"},
	} {
		if got, want := known(tc.values...).Text(tc.text), strings.ReplaceAll(tc.want, "§", redact.Placeholder); got != want {
			t.Errorf("%q in %q: %q, want %q", tc.values, tc.text, got, want)
		}
	}
	r := known("one secret value")
	r.DisablePatterns()
	if got := r.Text("sk-abcdefghij0123456789 one secret value"); got != "sk-abcdefghij0123456789 "+redact.Placeholder {
		t.Errorf("%q: patterns were switched off", got)
	}
	var none *redact.Redactor
	none.Add("anything at all")
	if s := none.Stream(); none.Text("anything at all") != "anything at all" || s.Write("x") != "x" || s.End() != "" {
		t.Error("no redactor changes something")
	}
}

// A value that becomes known in the middle of a stream is found from there on.
func TestValueLearntWhileReading(t *testing.T) {
	t.Parallel()
	r := known("the first secret")
	s := r.Stream()
	out := s.Write("the first sec")
	r.Add("a later secret")
	out += s.Write("ret, a later se") + s.Write("cret") + s.End()
	if want := redact.Placeholder + ", " + redact.Placeholder; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// What waits behind a prompt is shown: only what may be a secret is held back.
func TestPromptIsShown(t *testing.T) {
	t.Parallel()
	s := known("correct horse").Stream()
	for _, prompt := range []string{"Password: ", "token=", "Bearer ", "$ ", ">>> "} {
		if got := s.Write(prompt); got != prompt {
			t.Errorf("%q is shown as %q", prompt, got)
		}
		s.End()
	}
}

var pieces = []string{
	"correct horse", "correct ", "horse battery", "Bearer ", "bearer", "sk-", "sk", "AKIA", "akia", "ABCDEFGHIJKLMNOP", "abcdefghij0123456789",
	"token", "=", ": ", "\"", "'", " ", "\n", "x", "password", "hunter2hunter2", "ghp_", "é", "\xff", "api_key", "(", ".", "-", "_",
}

// In whatever pieces a text comes, the same is shown of it, and nothing that is known.
func TestPiecesMakeNoDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		check(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "text"), ""), rapid.SliceOfN(rapid.IntRange(0, 9), 1, 20).Draw(t, "cuts"))
	})
}

func check(t interface{ Errorf(string, ...any) }, text string, cuts []int) {
	values := []string{"correct horse", "horse battery", "correct horse battery staple"}
	r := known(values...)
	whole := r.Text(text)
	s, rest, got := r.Stream(), text, ""
	for i := 0; rest != ""; i++ {
		n := min(cuts[i%len(cuts)]+i%2, len(rest))
		got += s.Write(rest[:n])
		rest = rest[n:]
	}
	if got += s.End(); got != whole {
		t.Errorf("%q in pieces %v: %q, as a whole %q", text, cuts, got, whole)
	}
	for _, v := range values {
		if strings.Contains(whole, v) {
			t.Errorf("%q shows %q", whole, v)
		}
	}
	if again := r.Text(whole); again != whole && !strings.Contains(whole, redact.Placeholder) {
		t.Errorf("%q becomes %q when it is read again", whole, again)
	}
}

func FuzzStream(f *testing.F) {
	f.Add("password=hunter2hunter2 correct horse", []byte{1, 2, 3})
	f.Add("token: Bearer sk-abcdefghij0123456789", []byte{5})
	f.Fuzz(func(t *testing.T, text string, at []byte) {
		cuts := []int{1}
		for _, b := range at {
			cuts = append(cuts, int(b)%40)
		}
		check(t, text, cuts)
	})
}

func BenchmarkStream(b *testing.B) {
	r := &redact.Redactor{}
	for i := range 20 {
		r.Add(fmt.Sprintf("sk-%040d", i*7919), fmt.Sprintf("%x-%d-another kind of secret", i*104729, i))
	}
	piece := "ok  \tgithub.com/example/project/internal/token\t0.412s\n"
	b.Run("delta", func(b *testing.B) {
		s := r.Stream()
		b.SetBytes(int64(len(piece)))
		for b.Loop() {
			s.Write(piece)
		}
	})
	b.Run("text", func(b *testing.B) {
		text := strings.Repeat(piece, 20000)
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			r.Text(text)
		}
	})
	b.Run("log", func(b *testing.B) {
		w := r.Writer(io.Discard)
		for b.Loop() {
			_, _ = w.Write([]byte(piece))
		}
	})
}
