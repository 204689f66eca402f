// Package codemode runs JavaScript that a model has written, in a confined child process, and lets it call functions of the program
// that runs it.
//
// It owns: the life of the child process and its calls, names, the encoding of bytes, TypeScript declarations, truncation and
// redaction for the model. It must not know: a JavaScript engine, which only the child process links (package child), or how a host
// decides on calls.
//
// Start with [Executor]; a host starts with [Start]. Package codetool is the tool with which a plugin offers it to models.
package codemode

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

var identifier = regexp.MustCompile(`^[a-zA-Z_$][a-zA-Z0-9_$]*$`)

// reservedWords can't be the name of a function, although they look like identifiers.
const reservedWords = ` abstract arguments await boolean break byte case catch char class const continue debugger default delete do double
 else enum eval export extends false final finally float for function goto if implements import in instanceof int interface let long
 native new null package private protected public return short static super switch synchronized this throw throws transient true try
 typeof undefined var void volatile while with yield `

// reservedNamespaces are globals that a namespace must not replace: those of the language that a script relies on, and those that
// comparable executors reserve, so that a provider's name is valid in all of them.
const reservedNamespaces = ` __dispatchers __connectors __logs __CODEMODE_BINARY_TAG __bytesToBase64 __base64ToBytes __encodeCodemodeValue
 __decodeCodemodeValue __stringifyForCodemode __parseForCodemode WorkerEntrypoint CodeExecutor Promise setTimeout Error console
 globalThis `

// listed reports whether a word is in a list of words that are separated by spaces.
func listed(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

// CallableName returns the name under which code calls the function with the given name: an identifier that is not a reserved word.
func CallableName(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r == '-' || r == '.' || unicode.IsSpace(r):
			b.WriteByte('_')
		case r == '_' || r == '$' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(r)
		}
	}
	s := b.String()
	switch {
	case s == "":
		return "_"
	case s[0] >= '0' && s[0] <= '9':
		return "_" + s
	case listed(reservedWords, s):
		return s + "_"
	}
	return s
}

// nameError is an error about names. Its text, which starts with a capital letter, is part of the interface.
type nameError string

// Error implements error.
func (e nameError) Error() string { return string(e) }

// checkNamespaces returns an error if the names of namespaces are not distinct, valid names of globals.
func checkNamespaces(names []string) error {
	seen := map[string]bool{}
	for _, n := range names {
		switch {
		case !identifier.MatchString(n):
			return nameError(fmt.Sprintf("Provider name %q is not a valid JavaScript identifier", n))
		case listed(reservedNamespaces, n) || listed(reservedWords, n):
			return nameError(fmt.Sprintf("Provider name %q is reserved", n))
		case seen[n]:
			return nameError(fmt.Sprintf("Duplicate provider name %q", n))
		}
		seen[n] = true
	}
	return nil
}

// callable maps the callable names of a namespace's functions to their names. It returns an error if two functions have the same
// callable name.
func callable(namespace string, names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, n := range names {
		c := CallableName(n)
		if other, taken := out[c]; taken && other != n {
			return nil, nameError(fmt.Sprintf("Tool names %q and %q both sanitize to %q in provider %q", other, n, c, namespace))
		}
		out[c] = n
	}
	return out, nil
}

// typeName returns the Pascal case of a callable name.
func typeName(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '_' && i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z' {
			i++
			b.WriteByte(name[i] - 'a' + 'A')
			continue
		}
		b.WriteByte(name[i])
	}
	s := b.String()
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		s = string(s[0]-'a'+'A') + s[1:]
	}
	return s
}
