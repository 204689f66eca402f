package diff

import (
	"compress/zlib"
	"fmt"
	"strings"
)

// binaryPatch returns a binary patch for both directions: the content of the new file and of the old file.
func binaryPatch(before, after string) string {
	var b strings.Builder
	b.WriteString("GIT binary patch\n")
	literal(&b, after)
	literal(&b, before)
	return b.String()
}

// literal writes content in git's format: compressed, with 52 bytes per line, each line preceded by its length.
func literal(b *strings.Builder, data string) {
	fmt.Fprintf(b, "literal %d\n", len(data))
	var packed strings.Builder
	z := zlib.NewWriter(&packed)
	if _, err := z.Write([]byte(data)); err != nil {
		panic("diff: compress: " + err.Error()) // into memory
	}
	if err := z.Close(); err != nil {
		panic("diff: compress: " + err.Error())
	}
	const perLine = 52
	for rest := packed.String(); rest != ""; {
		n := min(perLine, len(rest))
		if n <= 26 {
			b.WriteByte(byte('A' + n - 1))
		} else {
			b.WriteByte(byte('a' + n - 27))
		}
		base85(b, rest[:n])
		b.WriteByte('\n')
		rest = rest[n:]
	}
	b.WriteByte('\n')
}

// digits85 are the digits of git's base 85 encoding, which differ from those of other encodings.
const digits85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// base85 writes five digits for every four bytes; the last group is padded with zeros.
func base85(b *strings.Builder, data string) {
	for len(data) > 0 {
		var word uint32
		for i := range 4 {
			word <<= 8
			if i < len(data) {
				word |= uint32(data[i])
			}
		}
		var digits [5]byte
		for i := range digits {
			digits[len(digits)-1-i] = digits85[word%85]
			word /= 85
		}
		b.Write(digits[:])
		data = data[min(4, len(data)):]
	}
}
