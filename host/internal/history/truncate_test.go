package history

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

const (
	long60 = "this is an example of a long output that should be truncated"
	long2  = long60 + "\nalso some other line"
)

func bytesPolicy(n int64) Policy  { return Policy{Bytes: true, Limit: n} }
func tokensPolicy(n int64) Policy { return Policy{Limit: n} }

func TestTruncate(t *testing.T) {
	emoji := strings.Repeat("😀", 10) + "\nsecond line with text\n"
	for _, tc := range []struct {
		name string
		in   string
		p    Policy
		want string
	}{
		{"bytes 1", "example output", bytesPolicy(1), "…13 chars truncated…t"},
		{"tokens 1", "example output", tokensPolicy(1), "ex…3 tokens truncated…ut"},
		{"fits tokens", "example output", tokensPolicy(10), "example output"},
		{"fits bytes", "example output", bytesPolicy(20), "example output"},
		{"tokens 5", long60, tokensPolicy(5), "this is an…10 tokens truncated… truncated"},
		{"bytes 30", long60, bytesPolicy(30), "this is an exam…30 chars truncated…ld be truncated"},
		{"emoji bytes", emoji, bytesPolicy(20), "😀😀…21 chars truncated…with text\n"},
		{"emoji tokens", emoji, tokensPolicy(8), "😀😀😀😀…8 tokens truncated… line with text\n"},
		{"nothing allowed", "abcdef", tokensPolicy(0), "…2 tokens truncated…"},
		{"empty", "", tokensPolicy(0), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Truncate(tc.in, tc.p); got != tc.want {
				t.Errorf("Truncate(%q, %+v) = %q, want %q", tc.in, tc.p, got, tc.want)
			}
		})
	}
}

func TestFitAnnounces(t *testing.T) {
	w := func(n, lines string) string {
		return "Warning: truncated output (original token count: " + n + ")\nTotal output lines: " + lines + "\n\n"
	}
	for _, tc := range []struct {
		name string
		in   string
		p    Policy
		want string
	}{
		{"bytes 1", "example output", bytesPolicy(1), w("4", "1") + "…13 chars truncated…t"},
		{"tokens 1", "example output", tokensPolicy(1), w("4", "1") + "ex…3 tokens truncated…ut"},
		{"fits", "example output", tokensPolicy(10), "example output"},
		{"fits bytes", "example output", bytesPolicy(20), "example output"},
		{"tokens 5", long60, tokensPolicy(5), w("15", "1") + "this is an…10 tokens truncated… truncated"},
		{"two lines, bytes 30", long2, bytesPolicy(30), w("21", "2") + "this is an exam…51 chars truncated…some other line"},
		{"two lines, tokens 10", long2, tokensPolicy(10), w("21", "2") + "this is an example o…11 tokens truncated…also some other line"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			roomy := Policy{Bytes: tc.p.Bytes, Limit: 1 << 40}
			if got := Fit(tc.in, tc.p, roomy, Loss{Announce: true}); got != tc.want {
				t.Errorf("Fit(%q, %+v) = %q, want %q", tc.in, tc.p, got, tc.want)
			}
		})
	}
	t.Run("many lines", func(t *testing.T) {
		in := strings.Repeat(strings.Repeat("a", 61)+"\n", 2500)
		got := Fit(in, bytesPolicy(10_000), bytesPolicy(1<<40), Loss{Announce: true})
		if !strings.HasPrefix(got, w("38750", "2500")) || !strings.Contains(got, "…145000 chars truncated…") || Tokens(145_000) != 36_250 {
			t.Errorf("got %.200q…", got)
		}
	})
	t.Run("lines of a command", func(t *testing.T) {
		var in strings.Builder
		for i := 1; i <= 999; i++ {
			in.WriteString("EXEC-LINE-" + strings.Repeat("0", 4-len(itoa(i))) + itoa(i) + " " + strings.Repeat("x", 20) + "\n")
		}
		got := Fit(in.String(), tokensPolicy(50), tokensPolicy(70_000), Loss{Announce: true})
		if !strings.HasPrefix(got, w("8991", "999")+"EXEC-LINE-0001 ") || !strings.Contains(got, "\nEXEC-LINE-0003 xxxxxxxxxxxxx…8941 tokens truncated…E-0997 ") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("dropped before", func(t *testing.T) {
		in := strings.Repeat("a", 100)
		got := Fit(in, tokensPolicy(5), tokensPolicy(1000), Loss{Total: 3_000_005, Omitted: 1_951_429, Announce: true})
		want := "Warning: truncated output (original token count: 750002)\n... 1951429 bytes omitted ...\n\n"
		if !strings.HasPrefix(got, want) {
			t.Errorf("Fit = %q, want prefix %q", got, want)
		}
	})
}

// The figures are those of a command whose whole answer, header included, must fit 1.2 times the policy.
func TestFitLeavesRoomForTheHeader(t *testing.T) {
	var b strings.Builder
	for i := 1; i <= 30_000; i++ {
		b.WriteString(itoa(i))
		b.WriteByte('\n')
	}
	header := "Chunk ID: 123456\nWall time: 0.0000 seconds\nProcess exited with code 0\nOriginal token count: 42224\nOutput:\n"
	for _, tc := range []struct {
		limit  Policy
		marker string
		chars  int
	}{
		{tokensPolicy(100), "…42159 tokens truncated…", 473},
		{tokensPolicy(50), "…42219 tokens truncated…", 0},
		{bytesPolicy(10_000), "…158894 chars truncated…", 10_213},
	} {
		p := tc.limit
		got := header + Fit(b.String(), p, p.Scale(1.2).Less(int64(len(header))), Loss{Announce: true})
		if !strings.Contains(got, tc.marker) {
			t.Errorf("limit %+v: %q has no %q", tc.limit, got, tc.marker)
		}
		if n := len([]rune(got)); tc.chars != 0 && n != tc.chars {
			t.Errorf("limit %+v: %d characters, want %d", tc.limit, n, tc.chars)
		}
	}
}

func itoa(i int) string {
	if i < 10 {
		return string(rune('0' + i))
	}
	return itoa(i/10) + string(rune('0'+i%10))
}

func TestSplit(t *testing.T) {
	smile := strings.Repeat("😀", 5)
	for _, tc := range []struct {
		s              string
		left, right    int64
		removed        int
		prefix, suffix string
	}{
		{"hello world", 5, 5, 1, "hello", "world"},
		{"abc", 0, 0, 3, "", ""},
		{"abcdef", 3, 0, 3, "abc", ""},
		{"abcdef", 0, 3, 3, "", "def"},
		{smile, 8, 8, 1, "😀😀", "😀😀"},
		{smile, 9, 3, 3, "😀😀", ""},
	} {
		p, s := split(tc.s, tc.left, tc.right)
		removed := utf8.RuneCountInString(tc.s[len(p) : len(tc.s)-len(s)])
		if p != tc.prefix || s != tc.suffix || removed != tc.removed {
			t.Errorf("split(%q, %d, %d) = %q, %q without %d, want %q, %q without %d", tc.s, tc.left, tc.right, p, s, removed, tc.prefix, tc.suffix, tc.removed)
		}
	}
}

func TestTokens(t *testing.T) {
	for n, want := range map[int64]int64{-1: 0, 0: 0, 5: 2, 4: 1} {
		if got := Tokens(n); got != want {
			t.Errorf("Tokens(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestTruncateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		p := Policy{Bytes: rapid.Bool().Draw(t, "bytes"), Limit: rapid.Int64Range(0, 200).Draw(t, "limit")}
		got := Truncate(s, p)
		if int64(len(s)) <= p.ByteBudget() && got != s {
			t.Fatalf("a text that fits was changed: %q", got)
		}
		const marker = 64
		if int64(len(got)) > p.ByteBudget()+marker {
			t.Fatalf("%d bytes left of a budget of %d", len(got), p.ByteBudget())
		}
		if strings.ToValidUTF8(s, "") == s && strings.ToValidUTF8(got, "") != got {
			t.Fatalf("a character was cut: %q", got)
		}
	})
}

// What is cut a second time tells of both losses.
func TestTruncateTwice(t *testing.T) {
	for _, tc := range []struct {
		name        string
		first, then Policy
		want        string
	}{
		{"the same", tokensPolicy(5), tokensPolicy(5), "this is an…10 tokens truncated… truncated"},
		{"fewer tokens", tokensPolicy(5), tokensPolicy(2), "this…13 tokens truncated…ated"},
		{"fewer bytes", bytesPolicy(30), bytesPolicy(10), "this …50 chars truncated…cated"},
		{"bytes, then tokens", bytesPolicy(30), tokensPolicy(2), "this…14 tokens truncated…ated"},
		{"tokens, then bytes", tokensPolicy(5), bytesPolicy(8), "this…52 chars truncated…ated"},
		{"nothing left", tokensPolicy(5), tokensPolicy(0), "…15 tokens truncated…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Truncate(Truncate(long60, tc.first), tc.then); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTruncateIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		p := Policy{Bytes: rapid.Bool().Draw(t, "bytes"), Limit: rapid.Int64Range(0, 60).Draw(t, "limit")}
		once := Truncate(s, p)
		if again := Truncate(once, p); again != once {
			t.Fatalf("%q became %q", once, again)
		}
		if !p.Bytes {
			return
		}
		less := p
		less.Limit = rapid.Int64Range(0, p.Limit).Draw(t, "less")
		cuts := cutsIn(Truncate(once, less))
		if len(cuts) != 1 {
			return
		}
		left := Truncate(once, less)
		if got, want := int64(len([]rune(left)))-int64(len([]rune(left[cuts[0].start:cuts[0].end])))+cuts[0].n, int64(len([]rune(s))); got != want {
			t.Fatalf("what is left of %q and what is said to be missing are %d characters, want %d", left, got, want)
		}
	})
}
