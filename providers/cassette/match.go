package cassette

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// matched reports whether a header must be equal to the recorded one because it affects the response.
func matched(name string) bool {
	return name == "accept" || name == "content-type" || strings.HasSuffix(name, "-version") || strings.HasSuffix(name, "-beta")
}

// differences lists up to most differences between a recorded request and a new one. An empty list means that they match.
func differences(recorded, now *Request, most int) []string {
	d := &comparison{most: most}
	if recorded.Method != now.Method {
		d.add("method", recorded.Method, now.Method)
	}
	if was, is := address(recorded.URL), address(now.URL); form(was) != form(is) {
		d.add("url", was, is)
	}
	for _, name := range slices.Sorted(maps.Keys(union(recorded.Headers, now.Headers))) {
		if was, is := recorded.Headers[name], now.Headers[name]; matched(name) && form(was) != form(is) {
			d.add("header "+name, was, is)
		}
	}
	was, wasJSON := parse(recorded.Body)
	is, isJSON := parse(now.Body)
	if wasJSON && isJSON {
		d.values("", was, is)
	} else if form(string(recorded.Body)) != form(string(now.Body)) {
		d.add("body", string(recorded.Body), string(now.Body))
	}
	return d.found
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// address returns a URL with sorted parameters.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	u.RawQuery, u.Fragment = u.Query().Encode(), ""
	return u.String()
}

// parse parses JSON and keeps the digits of numbers.
func parse(body []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil, false
	}
	return v, !d.More()
}

// comparison compares two JSON values.
type comparison struct {
	found []string
	most  int
}

func (c *comparison) full() bool { return len(c.found) >= c.most }

// add reports a difference between two texts.
func (c *comparison) add(where, recorded, now string) {
	recorded, now = about(recorded, now)
	c.say(where, recorded, now)
}

func (c *comparison) say(where, recorded, now string) {
	if !c.full() {
		c.found = append(c.found, fmt.Sprintf("%s: recorded %s, now %s", where, recorded, now))
	}
}

func (c *comparison) values(where string, recorded, now any) {
	if c.full() {
		return
	}
	if object, ok := recorded.(map[string]any); ok {
		if other, ok := now.(map[string]any); ok {
			c.objects(where, object, other)
			return
		}
	}
	if list, ok := recorded.([]any); ok {
		if other, ok := now.([]any); ok {
			for i := range min(len(list), len(other)) {
				c.values(fmt.Sprintf("%s[%d]", where, i), list[i], other[i])
			}
			if len(list) != len(other) {
				c.say(place(where), strconv.Itoa(len(list))+" entries", strconv.Itoa(len(other))+" entries")
			}
			return
		}
	}
	was, wasText := recorded.(string)
	is, isText := now.(string)
	switch {
	case !wasText || !isText:
		if !reflect.DeepEqual(recorded, now) {
			c.say(place(where), shortly(recorded), shortly(now))
		}
	case form(was) != form(is):
		c.add(place(where), was, is)
	}
}

func (c *comparison) objects(where string, recorded, now map[string]any) {
	names := map[string]bool{}
	for name := range recorded {
		names[name] = true
	}
	for name := range now {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		here := name
		if where != "" {
			here = where + "." + name
		}
		was, had := recorded[name]
		is, has := now[name]
		switch {
		case !had:
			c.say(here, "nothing", shortly(is))
		case !has:
			c.say(here, shortly(was), "nothing")
		default:
			c.values(here, was, is)
		}
	}
}

func place(where string) string {
	if where == "" {
		return "body"
	}
	return where
}

// Of two different texts, this much is shown: the end of the common prefix, and what follows.
const (
	shared = 20
	shown  = 60
)

// shortly formats a value on one line; strings are quoted.
func shortly(v any) string {
	if s, ok := v.(string); ok {
		out, _ := about(s, "")
		return out
	}
	b, err := json.Marshal(v)
	if err != nil { // cannot fail: the value was parsed from JSON
		return err.Error()
	}
	if len(b) > shown {
		return strings.ToValidUTF8(string(b[:shown]), "") + "…"
	}
	return string(b)
}

// about shortens two texts to the point where they begin to differ.
func about(a, b string) (string, string) {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	from := max(0, at-shared)
	cut := func(s string) string {
		start, end := from, min(len(s), at+shown)
		for start > 0 && start < len(s) && !utf8.RuneStart(s[start]) {
			start--
		}
		for end < len(s) && !utf8.RuneStart(s[end]) {
			end++
		}
		out := strconv.Quote(s[start:end])
		if start > 0 {
			out = "…" + out
		}
		if end < len(s) {
			out += "…"
		}
		return out
	}
	return cut(a), cut(b)
}
