package protocol

import "strings"

// CommandLine joins the arguments of a command to the text that items of commands and approvals carry, as codex does: /bin/bash -lc
// 'make test'. A POSIX shell reads the same arguments from it.
func CommandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		if words[i] = a; a == "" || strings.Trim(a, plain) != "" {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// plain are the characters that need no quotes.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-./:@_"

// Script returns what people should read: the text that a [CommandLine] gives to a shell, or else the whole line.
func (c CommandExecutionItem) Script() string {
	var words []string
	for rest := c.Command; ; rest = rest[1:] {
		var word strings.Builder
	word:
		for rest != "" {
			end := len(rest) - len(strings.TrimLeft(rest, plain))
			switch {
			case end > 0:
				word.WriteString(rest[:end])
				rest = rest[end:]
			case strings.HasPrefix(rest, `\'`):
				word.WriteByte('\'')
				rest = rest[2:]
			case rest[0] == '\'':
				text, after, ok := strings.Cut(rest[1:], "'")
				if !ok {
					return c.Command
				}
				word.WriteString(text)
				rest = after
			default:
				break word
			}
		}
		words = append(words, word.String())
		if rest == "" || rest[0] != ' ' || len(words) == 3 {
			if rest != "" || len(words) != 3 || words[1] != "-c" && words[1] != "-lc" {
				return c.Command
			}
			return words[2]
		}
	}
}
