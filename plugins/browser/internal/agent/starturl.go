package agent

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

var (
	emailAddress = regexp.MustCompile(`[\w.+-]+@[\w-]+(\.[\w-]+)+`)
	address      = regexp.MustCompile(`(?i)(?:[a-z][a-z0-9+.-]*://\S+|\b[a-z0-9][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)*\.[a-z]{2,}(?::\d+)?(?:[/?#]\S*)?)`)
	negation     = regexp.MustCompile(`(?i)\b(never|dont|not|don't|don’t)\b`)
	fileName     = regexp.MustCompile(`(?i)\.(pdf|docx?|xlsx?|pptx?|txt|md|csv|json|jsonl|xml|ya?ml|toml|html?|js|ts|py|go|rs|java|css|sh|zip|tar|gz|png|jpe?g|gif|svg|webp|mp[34]|log|ini|exe)$`)
	placeholder  = regexp.MustCompile(`(?i)^x+(\.x+)+$`)
)

// beforeNegation is how far before an address a word stands that forbids it, in bytes.
const beforeNegation = 20

// StartURL returns the address that a task begins with: the only one that it names; "": there is none, or it is not clear.
func StartURL(task string) string {
	text := emailAddress.ReplaceAllStringFunc(task, func(s string) string { return strings.Repeat(" ", len(s)) })
	var found []string
	for _, at := range address.FindAllStringIndex(text, -1) {
		if negation.MatchString(text[max(0, at[0]-beforeNegation):at[0]]) {
			continue
		}
		s := strings.TrimRight(text[at[0]:at[1]], ".,;:!?)]}'\"")
		named := strings.Contains(s, "://")
		if !named {
			s = "https://" + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || placeholder.MatchString(u.Hostname()) {
			continue
		}
		if fileName.MatchString(u.Path) || !named && u.Path == "" && fileName.MatchString(u.Hostname()) {
			continue
		}
		suffix := u.Hostname()[strings.LastIndexByte(u.Hostname(), '.')+1:]
		if _, known := publicsuffix.PublicSuffix(strings.ToLower(u.Hostname())); !named && (!known || suffix != strings.ToLower(suffix)) { // "Dr.Smith"
			continue
		}
		if !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}
