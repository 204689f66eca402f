package command

import "testing"

func TestHomoglyphs(t *testing.T) {
	for _, tc := range []struct {
		word    string
		program bool
		want    string // empty: it is none
	}{
		{"gіt", true, "g<U+0456>t"}, {"/usr/bin/gіt", true, "/usr/bin/g<U+0456>t"}, {"сат", true, "<U+0441><U+0430><U+0442>"}, {"сат", false, ""}, {"git", true, ""}, {"Straße", false, ""},
		{"файл.txt", false, ""}, {"mаin", false, "m<U+0430>in"}, {"ｇit", true, "<U+FF47>it"}, {"x-файл", false, ""}, {"日本語abc", false, ""}, {"πr", false, "<U+03C0>r"}, {"", true, ""}, {"a b", false, ""},
	} {
		marked, ok := Homoglyphs(tc.word, tc.program)
		if want := tc.want; ok != (want != "") || ok && marked != want || !ok && marked != tc.word {
			t.Errorf("%q: %q, %v, want %q", tc.word, marked, ok, tc.want)
		}
	}
}
