package redact

import "strings"

// kind is the position of a secret relative to its keyword.
type kind int

const (
	withKeyword kind = iota // begins with the keyword
	afterSpace              // after spaces
	afterSign               // after a colon or an equals sign, with or without quotes
)

// rule recognises secrets by a keyword and the characters that follow it.
type rule struct {
	keywords  []string // lower case
	exact     string   // exact spelling of the keyword; empty: case does not matter
	kind      kind
	chars     *[256]bool // characters of the secret
	minLength int        // minimum number of these characters
	digits    bool       // at least one of them must be a digit, and one a letter
	wholeWord bool       // no letter, digit or underscore precedes the keyword
	stops     string     // characters that can't follow: a value that is called or indexed is code and not a secret
}

// The minimum lengths match codex 0.169, which has the first, the second and the fourth rule.
var rules = []*rule{
	{keywords: []string{"bearer"}, kind: afterSpace, chars: chars("A-Z a-z 0-9 . _ ~ + / = -"), minLength: 16, wholeWord: true},
	{keywords: []string{"sk-"}, exact: "sk-", chars: chars("A-Z a-z 0-9 _ -"), minLength: 20, digits: true, wholeWord: true},
	{keywords: []string{"akia"}, exact: "AKIA", chars: chars("A-Z 0-9"), minLength: 16, wholeWord: true},
	{keywords: []string{"asia"}, exact: "ASIA", chars: chars("A-Z 0-9"), minLength: 16, digits: true, wholeWord: true},
	{keywords: []string{"ghp_"}, exact: "ghp_", chars: chars("A-Z a-z 0-9"), minLength: 30, wholeWord: true},
	{keywords: []string{"gho_"}, exact: "gho_", chars: chars("A-Z a-z 0-9"), minLength: 30, wholeWord: true},
	{keywords: []string{"ghs_"}, exact: "ghs_", chars: chars("A-Z a-z 0-9"), minLength: 30, wholeWord: true},
	{keywords: []string{"github_pat_"}, exact: "github_pat_", chars: chars("A-Z a-z 0-9 _"), minLength: 30, wholeWord: true},
	{keywords: []string{"glpat-"}, exact: "glpat-", chars: chars("A-Z a-z 0-9 _ -"), minLength: 20, wholeWord: true},
	{keywords: []string{"xoxb-"}, exact: "xoxb-", chars: chars("A-Z a-z 0-9 -"), minLength: 20, digits: true, wholeWord: true},
	{keywords: []string{"xoxp-"}, exact: "xoxp-", chars: chars("A-Z a-z 0-9 -"), minLength: 20, digits: true, wholeWord: true},
}

// names are parts of the names of variables and settings whose values are secrets.
var names = []string{"apikey", "api_key", "api-key", "token", "secret", "password"}

// Rules for values that are assigned to such a name. In a log, any value is considered a secret. Text for a model is mostly source
// code, where `token = parse(...)` is not a secret; a placeholder there would make the model edit the file incorrectly.
var (
	anything   = &rule{keywords: names, kind: afterSign, chars: everythingBut(" \t\r\n\v\f\"'"), minLength: 8}
	credential = &rule{keywords: names, kind: afterSign, chars: chars("A-Z a-z 0-9 + / _ ~ -"), minLength: 8, digits: true, stops: ".([<"}
)

// chars returns a set of ranges and single characters.
func chars(set string) *[256]bool {
	var out [256]bool
	for part := range strings.FieldsSeq(set) {
		for c := int(part[0]); c <= int(part[len(part)-1]); c++ {
			out[c] = true
		}
	}
	return &out
}

func everythingBut(not string) *[256]bool {
	var out [256]bool
	for c := range out {
		out[c] = strings.IndexByte(not, byte(c)) < 0
	}
	return &out
}

// keywords finds the keywords of the rules, ignoring case. All streams share it.
var keywords = newKeywords()

type keywordFinder struct {
	*automaton
	rule []*rule // by state: the rule whose keyword ends here; for names it is a placeholder for the stream's rule
	hold []uint8 // by state: number of bytes that may be the beginning of a keyword
}

func newKeywords() *keywordFinder {
	var all []string
	of := map[string]*rule{}
	for _, r := range append([]*rule{credential}, rules...) {
		for _, k := range r.keywords {
			all, of[k] = append(all, k), r
		}
	}
	f := &keywordFinder{automaton: newAutomaton(all)}
	for c := 'a'; c <= 'z'; c++ {
		f.class[c-'a'+'A'] = f.class[c]
	}
	f.rule, f.hold = make([]*rule, len(f.depth)), make([]uint8, len(f.depth))
	for _, k := range all {
		at := int32(0)
		for i := range len(k) {
			at = f.next[int(at)*f.width+int(f.class[k[i]])]
		}
		f.rule[at] = of[k]
	}
	// Only the beginning of a keyword that is part of its secret, or whose preceding byte matters, is held back.
	for _, k := range all {
		if !of[k].wholeWord {
			continue
		}
		for _, prefix := range append(all, "") {
			for n := range len(prefix) + 1 { // every state is a beginning of a keyword
				at := f.walk(prefix[:n])
				for m := min(len(k), n); m > 0; m-- {
					if prefix[n-m:n] == k[:m] {
						f.hold[at] = max(f.hold[at], uint8(m))
						break
					}
				}
			}
		}
	}
	return f
}

func (f *keywordFinder) walk(s string) int32 {
	at := int32(0)
	for i := range len(s) {
		at = f.next[int(at)*f.width+int(f.class[s[i]])]
	}
	return at
}
