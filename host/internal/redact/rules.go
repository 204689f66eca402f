package redact

import "strings"

// kind is where the secret begins.
type kind int

const (
	withKeyword kind = iota // the keyword is its beginning
	afterSpace              // behind spaces
	afterSign               // behind a colon or an equals sign, in quotes or not
)

// rule is a way in which secrets are recognised: a keyword, and the characters that follow it.
type rule struct {
	keywords  []string // lower case
	exact     string   // the keyword as it has to be written; empty: upper and lower case are the same
	kind      kind
	chars     *[256]bool // of the secret
	minLength int        // how many of them it has to have
	digits    bool       // one of them has to be a digit, and one a letter
	wholeWord bool       // no letter, digit or underscore stands before the keyword
	stops     string     // what can't follow it: what is called or looked into is no secret but code
}

// Rules. The numbers match codex 0.169, which knows the first, the second and the fourth.
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

// names are what a secret is assigned to.
var names = []string{"apikey", "api_key", "api-key", "token", "secret", "password"}

// What is assigned to such a name. In a log any value is taken for a secret. In what a model reads it is not: there it is
// mostly a program's text, where `token = parse(...)` is no secret, and a mark in it makes the model change the file wrongly.
var (
	anything   = &rule{keywords: names, kind: afterSign, chars: everythingBut(" \t\r\n\v\f\"'"), minLength: 8}
	credential = &rule{keywords: names, kind: afterSign, chars: chars("A-Z a-z 0-9 + / _ ~ -"), minLength: 8, digits: true, stops: ".([<"}
)

// chars makes a set of ranges and single characters.
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

// keywords finds the rules' keywords, without regard to case. It is the same for all streams.
var keywords = newKeywords()

type keywordFinder struct {
	*automaton
	rule []*rule // of a state: whose keyword ends there; that of [names] stands for what is assigned
	hold []uint8 // of a state: how much of the text so far may be the beginning of a keyword that stands alone
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
	// Only the beginning of a keyword is held back that belongs to its secret, or before which there is something to be looked at.
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
