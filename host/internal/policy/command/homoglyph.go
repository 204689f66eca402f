package command

import (
	"fmt"
	"strings"
	"unicode"
)

// Homoglyphs reports whether a word may be mistaken for another one: a part of it mixes Latin letters with similar ones of another alphabet,
// or it is a program's name and has such letters. marked is the word with the code points of these letters.
func Homoglyphs(word string, program bool) (marked string, ok bool) {
	var b strings.Builder
	start := 0
	flush := func(end int) {
		part := word[start:end]
		if foreign := foreignIn(part); foreign && (program || strings.ContainsFunc(part, latin)) {
			ok = true
			for _, r := range part {
				if alike(r) {
					fmt.Fprintf(&b, "<U+%04X>", r)
				} else {
					b.WriteRune(r)
				}
			}
			return
		}
		b.WriteString(part)
	}
	for i, r := range word {
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) {
			continue
		}
		flush(i)
		b.WriteRune(r)
		start = i + len(string(r))
	}
	if start <= len(word) {
		flush(len(word))
	}
	return b.String(), ok
}

func latin(r rune) bool { return r < 0x80 && unicode.IsLetter(r) }

func foreignIn(part string) bool { return strings.ContainsFunc(part, alike) }

// alike reports whether a letter belongs to an alphabet with letters similar to Latin ones, or is a variant of a Latin letter.
func alike(r rune) bool {
	if r < 0x80 {
		return false
	}
	return unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu, unicode.Deseret) ||
		r >= 0xff01 && r <= 0xff5e || r >= 0x1d400 && r <= 0x1d7ff || r >= 0x0250 && r <= 0x02af || r == 0x0131 || r == 0x0237 || r >= 0x2100 && r <= 0x218f
}
