package lock

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const header = `# Kept by gantry: ` + "`gantry plugin lock`, `add` and `remove`" + ` write this file.
# Commit it. It says which content each plugin must have; anything else is refused.
`

// Bytes returns the canonical form: blocks of plugins and then of processes, sorted by name, platforms by name, hashes sorted without duplicates. Columns are
// fixed, so that a line does not change when another one is added.
func (f *File) Bytes() []byte {
	var b bytes.Buffer
	b.WriteString(header)
	for _, e := range f.Entries() {
		fmt.Fprintf(&b, "\nplugin %s {\n", quote(e.Address))
		for _, a := range []struct{ name, value string }{
			{"version", quote(e.Version.String())},
			{"constraints", quoteOr(e.Constraints.String())},
			{"contract", number(e.Contract)},
			{"manifest", quoteOr(string(e.Manifest))},
			{"grants", quoteOr(string(e.Grants))},
			{"files", quoteOr(string(e.Files))},
			{"signer", quoteOr(e.Signer)},
		} {
			if a.value != "" {
				fmt.Fprintf(&b, "  %-11s = %s\n", a.name, a.value)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(e.Platforms)) {
			fmt.Fprintf(&b, "\n  platform %s {\n", quote(name))
			printHashes(&b, "    ", "binary", e.Platforms[name].Binary)
			printHashes(&b, "    ", "package", e.Platforms[name].Package)
			b.WriteString("  }\n")
		}
		b.WriteString("}\n")
	}
	for _, p := range f.Processes() {
		fmt.Fprintf(&b, "\nprocess %s {\n  content = %s\n", quote(p.Name), quote(string(p.Content)))
		printHashes(&b, "  ", "program", p.Programs)
		b.WriteString("}\n")
	}
	return b.Bytes()
}

func printHashes(b *bytes.Buffer, indent, name string, hashes []Hash) {
	hashes = union(hashes)
	switch len(hashes) {
	case 0:
	case 1:
		fmt.Fprintf(b, "%s%-7s = %s\n", indent, name, quote(string(hashes[0])))
	default:
		fmt.Fprintf(b, "%s%-7s = [\n", indent, name)
		for _, h := range hashes {
			fmt.Fprintf(b, "%s  %s,\n", indent, quote(string(h)))
		}
		fmt.Fprintf(b, "%s]\n", indent)
	}
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func quoteOr(s string) string {
	if s == "" {
		return ""
	}
	return quote(s)
}

// quote returns an HCL string literal.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case (r == '$' || r == '%') && strings.HasPrefix(s[i+1:], "{"):
			b.WriteRune(r)
			b.WriteRune(r)
		case r < ' ' || r == 0x7f || r > 0x7e && r < 0xa0:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
