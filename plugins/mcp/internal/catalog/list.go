package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Limits of a list.
const (
	MaxPages  = 100
	MaxItems  = 2048
	maxCursor = 64 << 10
	maxBytes  = 4 << 20 // of the declarations of a server's tools
)

// Fetch gets the page of a list at a cursor; empty: the first one. The page is the result of the request.
type Fetch func(ctx context.Context, cursor string) (page json.RawMessage, err error)

// Pages gets all pages of a list and passes their elements to item, which may return an error to stop. member is the name of the list
// in a page, for example "tools". A list that does not end is an error.
func Pages(ctx context.Context, member string, fetch Fetch, item func(json.RawMessage) error) error {
	cursor, seen := "", map[string]bool{}
	for range MaxPages {
		raw, err := fetch(ctx, cursor)
		if err != nil {
			return err
		}
		var page map[string]json.RawMessage
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("the server's list of %s is not a JSON object", member)
		}
		if err := json.Unmarshal(page[member], &items); err != nil {
			return fmt.Errorf("the server's answer has no list named %q", member)
		}
		for _, i := range items {
			if err := item(i); err != nil {
				return err
			}
		}
		cursor = ""
		if next := page["nextCursor"]; len(next) > 0 && json.Unmarshal(next, &cursor) != nil {
			return errors.New("the server's cursor is not a string")
		}
		switch {
		case cursor == "":
			return nil
		case len(cursor) > maxCursor:
			return fmt.Errorf("the server's cursor has %d bytes; the maximum is %d", len(cursor), maxCursor)
		case seen[cursor]:
			return fmt.Errorf("the server's list of %s does not end: it has sent the cursor %q twice", member, Line(cursor, 60))
		}
		seen[cursor] = true
	}
	return fmt.Errorf("the server's list of %s has more than %d pages", member, MaxPages)
}

// Choice says which tools of a server are used, by patterns of the names that the server uses: `*` stands for any characters.
type Choice struct {
	Allow []string // empty: all
	Deny  []string
}

// Uses reports whether a tool is used: it is allowed, and not denied.
func (c Choice) Uses(tool string) bool {
	matches := func(patterns []string) bool {
		for _, p := range patterns {
			if match(p, tool) {
				return true
			}
		}
		return false
	}
	return (len(c.Allow) == 0 || matches(c.Allow)) && !matches(c.Deny)
}

// match reports whether a name matches a pattern.
func match(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return name == pattern
	}
	name, ok := strings.CutPrefix(name, first)
	for ok && star {
		var part string
		if part, rest, star = strings.Cut(rest, "*"); !star {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
	}
	return ok
}

// List gets the tools of a server that are used, each once. The problems are about tools that are left out.
func List(ctx context.Context, fetch Fetch, choice Choice) (tools []Tool, problems []error, err error) {
	seen := map[string]bool{}
	total, left := 0, 0
	err = Pages(ctx, "tools", fetch, func(raw json.RawMessage) error {
		var wire struct {
			Name json.RawMessage `json:"name"`
		}
		_ = json.Unmarshal(raw, &wire)
		if name := text(wire.Name); name != "" && !choice.Uses(name) {
			return nil
		}
		t, err := ParseTool(raw)
		switch {
		case errors.Is(err, errHidden):
			return nil
		case err != nil:
			problems = appendProblem(problems, err)
			return nil
		case seen[t.Name]:
			problems = appendProblem(problems, fmt.Errorf("the tool %q is listed twice", Line(t.Name, maxName)))
			return nil
		case len(tools) == MaxItems:
			return fmt.Errorf("the server has more than %d tools; next: choose some with allow or deny in the server's block", MaxItems)
		}
		seen[t.Name] = true
		if total += t.Size(); total > maxBytes {
			left++
			return nil
		}
		tools = append(tools, t)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if left > 0 {
		problems = append(problems, fmt.Errorf("%d tools are left out, because the declarations of all have more than %d bytes; next: choose some with allow or deny in the server's block", left, maxBytes))
	}
	return tools, problems, nil
}

// maxProblems bounds what is said about one list.
const maxProblems = 20

func appendProblem(problems []error, err error) []error {
	switch {
	case len(problems) < maxProblems:
		return append(problems, err)
	case len(problems) == maxProblems:
		return append(problems, errors.New("more tools are left out"))
	}
	return problems
}
