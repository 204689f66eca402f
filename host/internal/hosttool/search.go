package hosttool

import (
	"bytes"
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
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/kljensen/snowball/english"
	"golang.org/x/text/unicode/norm"
)

// search returns the tool that finds deferred tools: for models that are trained to look for tools, and for others if there are many.
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
	switch found := suitable(c); {
	case len(deferred(c.Others)) == 0:
		return Absent
	case len(found) > 0 && (searches(c.Model) || many(found)):
		return Offered
	}
	return Hidden
}

// searches reports whether a model is trained to look for tools.
func searches(row llm.ModelRow) bool { return slices.Contains(row.ToolKinds, "search") }

// suitable lists the deferred tools that the model could be offered.
func suitable(c Conditions) []*registry.Entry {
	traits := c.Model.Traits()
	return slices.DeleteFunc(deferred(c.Others), func(e *registry.Entry) bool { return !e.Suits(traits) })
}

// How many deferred tools a model that is not trained to look for tools is offered directly. With more, it gets functions that find and
// call them.
const (
	mostDeclared      = 100
	mostDeclaredBytes = 80_000 // of names, descriptions and schemas: about 20,000 tokens
)

// many reports whether the declarations of tools are too much for every request.
func many(tools []*registry.Entry) bool {
	n := 0
	for _, e := range tools {
		n += len(e.Name) + len(e.Description) + len(e.InputSchema)
	}
	return len(tools) > mostDeclared || n > mostDeclaredBytes
}

// callFound returns the function with which a model that can call only what its request declares calls the tools that it has found.
// The tools of the request stay the same, so its beginning stays cached.
func callFound() Tool {
	return Tool{
		Label: LabelPrefix + "call",
		Descriptor: contract.Descriptor{
			// Only a call that stands for no other runs as itself: it has no effect.
			Name: "tool_call", Nesting: contract.NestingNever, ReadOnly: true, ParallelSafe: true,
			Description: "Calls a tool that tool_search has found.",
			InputSchema: json.RawMessage(`{"additionalProperties":false,"properties":{` +
				`"arguments":{"description":"The tool's arguments, by its schema.","type":"object"},` +
				`"name":{"description":"The tool's name.","minLength":1,"type":"string"},` +
				`"namespace":{"description":"The tool's namespace, if it has one.","type":"string"}},"required":["name","arguments"],"type":"object"}`),
		},
		Offer: func(c Conditions) Offer {
			switch found := suitable(c); {
			case len(deferred(c.Others)) == 0:
				return Absent
			case !searches(c.Model) && many(found):
				return Offered
			}
			return Hidden
		},
		Target: target, HostTool: orchestrate.HostTool{Backend: Func(runCallFound).Backend},
	}
}

// found is the input of tool_call.
type found struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// target returns the call that the input of tool_call stands for; nil: none.
func target(input string) *llm.ToolCall {
	var in found
	if json.Unmarshal([]byte(input), &in) != nil || in.Name == "" {
		return nil
	}
	return &llm.ToolCall{Namespace: in.Namespace, Name: in.Name, Input: string(in.Arguments)}
}

// runCallFound answers a call that stands for no other: the tool doesn't exist.
func runCallFound(_ context.Context, _ *orchestrate.HostCall, in contract.Input) (*contract.Result, error) {
	var f found
	if err := json.Unmarshal(in.Arguments, &f); err != nil {
		return nil, registry.ArgumentsError(err)
	}
	return nil, fmt.Errorf("there is no tool %q in the namespace %q that this function can call; look for it with tool_search, and use its namespace and name as they are shown there", f.Name, f.Namespace)
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
		source := fmt.Sprintf("%s (%d", name, count[name])
		if said, ok := others.Said()[name]; ok {
			source += fmt.Sprintf("; %q says: %q", said.Source, firstLine(said.Description))
		}
		sources = append(sources, source+")")
	}
	text := "Finds tools that are not listed here, by words. What it finds can be called from then on. There are tools of: "
	text += strings.Join(sources, ", ")
	if len(text) > maxSources {
		text = strings.ToValidUTF8(text[:maxSources], "") + "…"
	}
	return text
}

// maxSaid bounds what a source says of itself in the description, in bytes.
const maxSaid = 256

// firstLine returns the beginning of a text, up to the end of a line.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > maxSaid {
		line = strings.ToValidUTF8(line[:maxSaid], "") + "…"
	}
	return line
}

// document returns the texts that a query is matched against.
func document(e *registry.Entry) [7]string {
	return [...]string{e.Namespace, e.Name, e.Plugin, e.Source, e.Description, e.SearchText, e.SchemaText()}
}

// stem returns what a word has in common with its other forms; "" for a stop word.
func stem(word string) string {
	switch {
	case english.IsStopWord(word):
		return ""
	case word[len(word)-1] <= '9': // a number has no ending
		return word
	}
	return english.Stem(word, false)
}

// eachWord calls f for each word of a text, in lower case and without accents. Names are split: create_event and createEvent are two
// words each. f must not keep the word, which is in space.
func eachWord(text string, space []byte, f func(word []byte)) {
	word := space[:0]
	end := func() {
		if len(word) > 0 {
			f(word)
		}
		word = word[:0]
	}
	small := false // the previous rune is a lower-case letter
	for _, r := range norm.NFKD.String(text) {
		switch {
		case 'a' <= r && r <= 'z': // most are
			word = append(word, byte(r))
			small = true
			continue
		case unicode.Is(unicode.Mn, r):
			continue
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
		case unicode.IsUpper(r) && small:
			end()
			word = utf8.AppendRune(word, unicode.ToLower(r))
		default:
			word = utf8.AppendRune(word, unicode.ToLower(r))
		}
		small = unicode.IsLower(r)
	}
	end()
}

// Parameters of the ranking, which is Okapi BM25; codex-compatible.
const (
	saturation = 1.2
	byLength   = 0.75
)

// Rank returns the tools that match a query, best first. Of equally good ones, the one that was declared first comes first. Tools with
// none of the words are left out.
func Rank(entries []*registry.Entry, query string) []*registry.Entry {
	var wanted []string // stems, in the order of the query
	space := make([]byte, 0, 256)
	eachWord(query, space, func(word []byte) {
		if s := stem(string(word)); s != "" {
			wanted = append(wanted, s)
		}
	})
	// Of a word of the tools, only its stem's place in the query is needed, and few words differ.
	const stop, other = -2, -1
	places := map[string]int{}
	place := func(word []byte) int {
		if word[len(word)-1] <= '9' { // a number, which is its own stem and of which there may be as many as tools
			return slices.IndexFunc(wanted, func(s string) bool { return s == string(word) }) // or other
		}
		p, ok := places[string(word)]
		if !ok {
			if s := stem(string(word)); s == "" {
				p = stop
			} else {
				p = slices.Index(wanted, s) // or other
			}
			places[string(word)] = p
		}
		return p
	}
	counts := make([]float64, len(entries)*len(wanted)) // of each tool: how often it has each of the wanted words
	lengths := make([]float64, len(entries))            // of each tool's document, in words
	having := make([]float64, len(wanted))              // number of tools with a word
	average := 0.0
	for i, e := range entries {
		n := counts[i*len(wanted):][:len(wanted)]
		for _, text := range document(e) {
			eachWord(text, space, func(word []byte) {
				p := place(word)
				if p == stop {
					return
				}
				if lengths[i]++; p != other {
					n[p]++
				}
			})
		}
		for p := range n {
			if n[p] > 0 {
				having[p]++
			}
		}
		average += lengths[i]
	}
	average /= float64(max(len(entries), 1))
	scores := map[*registry.Entry]float64{}
	var out []*registry.Entry
	for i, e := range entries {
		score := 0.0
		for _, w := range wanted {
			p := slices.Index(wanted, w) // a word that the query repeats counts again
			n := counts[i*len(wanted)+p]
			idf := math.Log(1 + (float64(len(entries))-having[p]+0.5)/(having[p]+0.5))
			score += idf * n * (saturation + 1) / (n + saturation*(1-byLength+byLength*lengths[i]/average))
		}
		if score > 0 {
			scores[e] = score
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b *registry.Entry) int { return cmp.Compare(scores[b], scores[a]) })
	return out
}

func runSearch(_ context.Context, c *orchestrate.HostCall, in contract.Input) (*contract.Result, error) {
	tools, err := findTools(c.Tools, in.Arguments, c.Traits)
	switch {
	case err != nil:
		return nil, err
	case len(tools) == 0:
		return contract.Text("No tool was found. Other words may find one."), nil
	case c.Model.Search:
		c.Found(tools)
		return contract.Text("Found:" + named(tools)), nil
	}
	text, err := declared(tools, c.Output.ByteBudget())
	return contract.Text(text), err
}

// findTools returns the tools that match the arguments of a search and that a model with these traits can be offered.
func findTools(tools *registry.Snapshot, arguments json.RawMessage, traits []string) (found []llm.Tool, err error) {
	var in struct {
		Query string   `json:"query"`
		Limit *float64 `json:"limit"`
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, registry.ArgumentsError(err)
	}
	if strings.TrimSpace(in.Query) == "" {
		return nil, registry.ArgumentsError(errors.New("`query` must not be empty"))
	}
	limit := searchLimit
	if in.Limit != nil {
		limit = int(min(*in.Limit, mostFound))
	}
	for _, e := range Rank(deferred(tools), in.Query) {
		if len(found) == limit {
			break
		}
		if e.Suits(traits) {
			found = append(found, e.Declaration(llm.ModelRow{}))
		}
	}
	return found, nil
}

// named lists tools for people; models get their declarations.
func named(tools []llm.Tool) string {
	var b strings.Builder
	for _, t := range tools {
		line, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
		fmt.Fprintf(&b, "\n- %s: %s", registry.FullName(t.Namespace, t.Name), line)
	}
	return b.String()
}

// maxRest bounds the line that says how many tools are left out.
const maxRest = 100

// declared describes tools to a model that is going to call them with tool_call, one line for each, as far as they fit into limit bytes.
func declared(tools []llm.Tool, limit int64) (string, error) {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	b.WriteString("Call these with tool_call:\n")
	for i, t := range tools {
		before := b.Len()
		if err := lines.Encode(struct {
			Namespace   string          `json:"namespace,omitempty"`
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Arguments   json.RawMessage `json:"arguments"` // schema
		}{t.Namespace, t.Name, t.Description, t.InputSchema}); err != nil {
			return "", fmt.Errorf("describe the tool %s: %w", registry.FullName(t.Namespace, t.Name), err)
		}
		if i > 0 && int64(b.Len()) > limit-maxRest {
			b.Truncate(before)
			fmt.Fprintf(&b, "%d more match; they are found with more specific words.\n", len(tools)-i)
			break
		}
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
