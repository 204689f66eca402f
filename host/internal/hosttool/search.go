package hosttool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/kljensen/snowball/english"
	"golang.org/x/text/unicode/norm"
)

// search returns the tool that finds deferred tools for models that are trained to look for tools.
func search() Tool {
	return Tool{
		Label: LabelPrefix + "search",
		Descriptor: contract.Descriptor{
			Name: "tool_search", ReadOnly: true, ParallelSafe: true, Nesting: contract.NestingNever,
			InputSchema: json.RawMessage(`{"additionalProperties":false,"properties":{` +
				`"limit":{"description":"Most tools to find; 8 where it is left out.","minimum":1,"type":"integer"},` +
				`"query":{"description":"What the tool should do, or its name, in a few words.","minLength":1,"type":"string"}},"required":["query"],"type":"object"}`),
		},
		Describe: describeSearch, Search: true, Offer: offerSearch, HostTool: orchestrate.HostTool{Backend: Func(runSearch).Backend},
	}
}

func offerSearch(c Conditions) Offer {
	found := deferred(c.Others)
	traits := c.Model.Traits()
	switch {
	case len(found) == 0:
		return Absent
	case !slices.Contains(c.Model.ToolKinds, "search"), !slices.ContainsFunc(found, func(e *registry.Entry) bool { return e.Suits(traits) }):
		return Hidden
	}
	return Offered
}

// deferred lists the tools that a model finds by search.
func deferred(tools *registry.Snapshot) (out []*registry.Entry) {
	for _, e := range tools.Entries() {
		if e.Exposure == contract.ExposureDeferred && e.Nesting != contract.NestingOnly {
			out = append(out, e)
		}
	}
	return out
}

// Numbers of tools that one search returns.
const (
	searchLimit = 8  // without a limit in the query; codex-compatible
	mostFound   = 50 // at most: all of it becomes part of the conversation
)

// maxSources bounds the list of sources in the description, in bytes.
const maxSources = 8 << 10

// describeSearch names the plugins and namespaces that have deferred tools.
func describeSearch(others *registry.Snapshot, _ llm.ModelRow) string {
	count := map[string]int{}
	for _, e := range deferred(others) {
		count[cmp.Or(e.Namespace, e.Plugin)]++
	}
	var sources []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		sources = append(sources, fmt.Sprintf("%s (%d)", name, count[name]))
	}
	text := "Finds tools that are not listed here, by words. What it finds can be called from then on. There are tools of: "
	text += strings.Join(sources, ", ")
	if len(text) > maxSources {
		text = strings.ToValidUTF8(text[:maxSources], "") + "…"
	}
	return text
}

// document returns the text that a query is matched against.
func document(e *registry.Entry) string {
	parts := []string{e.Namespace, e.Name, e.Plugin, e.Source, e.Description, e.SearchText}
	var schema any
	if json.Unmarshal(e.InputSchema, &schema) == nil {
		parts = describe(parts, schema)
	}
	return strings.Join(parts, " ")
}

// describe appends the names of properties and the descriptions in a schema.
func describe(dst []string, schema any) []string {
	switch s := schema.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(s)) {
			if text, ok := s[key].(string); ok && (key == "description" || key == "title") {
				dst = append(dst, text)
			}
			if properties, ok := s[key].(map[string]any); ok && key == "properties" {
				dst = append(dst, slices.Sorted(maps.Keys(properties))...)
			}
			dst = describe(dst, s[key])
		}
	case []any:
		for _, v := range s {
			dst = describe(dst, v)
		}
	}
	return dst
}

// wordsOf returns the stems of a text's words, in lower case and without accents and stop words. Names are split: create_event and
// createEvent are two words each.
func wordsOf(text string) []string {
	var out []string
	var word []rune
	end := func() {
		if s := strings.ToLower(string(word)); s != "" && !english.IsStopWord(s) {
			out = append(out, english.Stem(s, false))
		}
		word = word[:0]
	}
	small := false // the previous rune is a lower-case letter
	for _, r := range norm.NFKD.String(text) {
		switch {
		case unicode.Is(unicode.Mn, r):
			continue
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
		case unicode.IsUpper(r) && small:
			end()
			word = append(word, r)
		default:
			word = append(word, r)
		}
		small = unicode.IsLower(r)
	}
	end()
	return out
}

// Parameters of the ranking, which is Okapi BM25; codex-compatible.
const (
	saturation = 1.2
	byLength   = 0.75
)

// Rank returns the tools that match a query, best first. Of equally good ones, the one that was declared first comes first. Tools with
// none of the words are left out.
func Rank(entries []*registry.Entry, query string) []*registry.Entry {
	counts := make([]map[string]int, len(entries)) // of each tool's words
	lengths := make([]float64, len(entries))       // of each tool's document, in words
	having := map[string]float64{}                 // number of tools with a word
	average := 0.0
	for i, e := range entries {
		words := wordsOf(document(e))
		counts[i], lengths[i] = map[string]int{}, float64(len(words))
		for _, w := range words {
			if counts[i][w]++; counts[i][w] == 1 {
				having[w]++
			}
		}
		average += lengths[i]
	}
	average /= float64(max(len(entries), 1))
	scores, wanted := map[*registry.Entry]float64{}, wordsOf(query)
	var out []*registry.Entry
	for i, e := range entries {
		for _, w := range wanted {
			n := float64(counts[i][w])
			idf := math.Log(1 + (float64(len(entries))-having[w]+0.5)/(having[w]+0.5))
			scores[e] += idf * n * (saturation + 1) / (n + saturation*(1-byLength+byLength*lengths[i]/average))
		}
		if scores[e] > 0 {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b *registry.Entry) int { return cmp.Compare(scores[b], scores[a]) })
	return out
}

func runSearch(_ context.Context, c *orchestrate.HostCall, in contract.Input) (*contract.Result, error) {
	found, text, err := findTools(c.Tools, in.Arguments, c.Traits)
	if err != nil {
		return nil, err
	}
	c.Found(found)
	return contract.Text(text), nil
}

// findTools returns the tools that match the arguments of a search and that a model with these traits can be offered. text lists them
// in words.
func findTools(tools *registry.Snapshot, arguments json.RawMessage, traits []string) (found []llm.Tool, text string, err error) {
	var in struct {
		Query string   `json:"query"`
		Limit *float64 `json:"limit"`
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, "", registry.ArgumentsError(err)
	}
	if strings.TrimSpace(in.Query) == "" {
		return nil, "", registry.ArgumentsError(errors.New("`query` must not be empty"))
	}
	limit := searchLimit
	if in.Limit != nil {
		limit = int(min(*in.Limit, mostFound))
	}
	var b strings.Builder
	for _, e := range Rank(deferred(tools), in.Query) {
		if len(found) == limit {
			break
		}
		if !e.Suits(traits) {
			continue
		}
		t := e.Declaration(llm.ModelRow{})
		found = append(found, t)
		line, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
		fmt.Fprintf(&b, "\n- %s: %s", e.FullName(), line)
	}
	if len(found) == 0 {
		return nil, "No tool was found. Other words may find one.", nil
	}
	return found, "Found:" + b.String(), nil
}
