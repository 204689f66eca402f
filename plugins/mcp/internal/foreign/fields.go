package foreign

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// fields are the settings of one server. Those that are not read are told.
type fields struct {
	place []string
	left  map[string]any
}

// text takes a setting that is a text; "" if it is missing.
func (f fields) text(s *Server, name string) string {
	v, ok := f.left[name]
	if !ok {
		return ""
	}
	delete(f.left, name)
	t, ok := v.(string)
	if !ok {
		f.leave("it is not a text", name)
	}
	return t
}

// texts takes a setting that is a list of texts.
func (f fields) texts(name string) []string {
	v, ok := f.left[name]
	if !ok {
		return nil
	}
	delete(f.left, name)
	list, ok := v.([]any)
	out := make([]string, 0, len(list))
	for _, e := range list {
		t, isText := e.(string)
		ok = ok && isText
		out = append(out, t)
	}
	if !ok {
		f.leave("it is not a list of texts", name)
	}
	return out
}

// table takes a setting that is an object of texts, numbers and booleans, as texts.
func (f fields) table(name string) map[string]string {
	v, ok := f.left[name]
	if !ok {
		return nil
	}
	delete(f.left, name)
	m, ok := v.(map[string]any)
	if !ok {
		f.leave("it is not an object", name)
	}
	out := map[string]string{}
	for key, v := range m {
		switch v.(type) {
		case string, bool, float64, int64:
			out[key] = fmt.Sprint(v)
		default:
			f.leave("it is not a text", name, key)
		}
	}
	return out
}

// flag takes a boolean.
func (f fields) flag(name string) (value, ok bool) {
	v, there := f.left[name]
	if !there {
		return false, false
	}
	delete(f.left, name)
	if value, ok = v.(bool); !ok {
		f.leave("it is not true or false", name)
	}
	return value, true
}

// duration takes a number of units as a duration.
func (f fields) duration(s *Server, name, argument string, millis bool) {
	v, ok := f.left[name]
	if !ok {
		return
	}
	delete(f.left, name)
	n, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if millis {
		n /= 1000
	}
	if err != nil || n <= 0 || n > 1e6 {
		s.note(f.at(name), "it is not a time that gantry can use")
		return
	}
	s.Block[argument] = strconv.FormatFloat(n*1000, 'f', 0, 64) + "ms"
}

// set sets an argument unless it is empty.
func (s *Server) set(argument string, v any) {
	switch x := v.(type) {
	case string:
		if x == "" {
			return
		}
	case []string:
		if len(x) == 0 {
			return
		}
	case map[string]any:
		if len(x) == 0 {
			return
		}
	}
	s.Block[argument] = v
}

// program sets the program and its arguments. split: the arguments are a setting of their own, args.
func (f fields) program(s *Server, argv []string, split bool) {
	place := func(i int) []string {
		switch {
		case !split:
			return []string{"command", fmt.Sprintf("[%d]", i)}
		case i == 0:
			return []string{"command"}
		}
		return []string{"args", fmt.Sprintf("[%d]", i-1)}
	}
	argv[0] = ofHome(argv[0])
	for i, a := range argv {
		previous := ""
		if i > 0 {
			previous = argv[i-1]
		}
		if secretArgument(a) || strings.HasPrefix(previous, "-") && !strings.HasPrefix(a, "-") && !strings.Contains(previous, "=") && secretPair(previous, a) {
			f.leave("it looks like a secret, and gantry keeps none among arguments; if the program can read it from a variable, add it with `gantry mcp add`", place(i)...)
		}
		if reference().MatchString(a) {
			what := "arguments"
			if i == 0 {
				what = "the name of a program"
			}
			s.note(f.at(place(i)...), fmt.Sprintf("gantry does not replace references in %s; write the value", what))
		}
	}
	s.set("command", argv[0])
	s.set("args", argv[1:])
}

// variables sets the environment.
func (f fields) variables(s *Server, name string) {
	env := map[string]any{}
	table := f.table(name)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if v := f.value(s, key, table[key], name, key); v != nil {
			env[key] = v
		}
	}
	s.set("env", env)
}

// address sets the URL.
func (f fields) address(s *Server, url, at string) {
	if url == "" {
		return
	}
	_, query, _ := strings.Cut(url, "?")
	for part := range strings.SplitSeq(query, "&") {
		if name, value, ok := strings.Cut(part, "="); ok && looksSecret(name, value) {
			f.leave("a part of the url looks like a secret, and gantry keeps none in urls", at)
		}
	}
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		rest = url
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if strings.Contains(rest, "@") || looksSecret("", url) {
		f.leave("a part of the url looks like a secret, and gantry keeps none in urls", at)
	}
	if reference().MatchString(url) {
		f.leave("gantry does not replace references in urls", at)
	}
	s.set("url", url)
}

// headers sets the headers, and the bearer token if one has it.
func (f fields) headers(s *Server, name string) {
	headers := map[string]any{}
	table := f.table(name)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		value := table[key]
		if rest, ok := strings.CutPrefix(value, "Bearer "); ok && strings.EqualFold(key, "Authorization") {
			if v := f.value(s, "token", rest, name, key); v != nil {
				s.Block["bearer_token"] = v
			}
			continue
		}
		if v := f.value(s, key, value, name, key); v != nil {
			headers[key] = v
		}
	}
	s.set("headers", headers)
}

// value returns the value of a variable or header, or a reference; nil if it can't be carried over, which is noted.
func (f fields) value(s *Server, name, value string, at ...string) any {
	if m := whole().FindStringSubmatch(value); m != nil {
		from := cmp.Or(m[1], m[3])
		if looksSecret(name, m[2]) || looksSecret(from, m[2]) {
			s.note(f.at(at...), fmt.Sprintf("the default of %s looks like a secret, and was not written; set the variable", from))
			return variable(from, "")
		}
		return variable(from, m[2])
	}
	if input().MatchString(value) || !reference().MatchString(value) && looksSecret(name, value) {
		secret := secretName(s.Name, name)
		s.note(f.at(at...), fmt.Sprintf("a secret, which was not written; store it with `gantry secret set %[1]s`, and write secret(\"%[1]s\") in the block", secret))
		return nil
	}
	if reference().MatchString(value) {
		s.note(f.at(at...), "gantry does not replace references within a value; set it in the block")
		return nil
	}
	return value
}

// mode returns an approval mode.
func (f fields) mode(s *Server, mode string, at ...string) string {
	if mode != "" && !slices.Contains([]string{"auto", "prompt", "writes", "approve"}, mode) {
		s.note(f.at(at...), fmt.Sprintf("gantry has no mode %q", clip(mode, 40)))
		return ""
	}
	if mode == "approve" {
		s.note(f.at(at...), "calls will not be asked about; for questions, set approval to auto or prompt in the block")
	}
	return mode
}

// folder returns a folder, which must be absolute: it is not known where the file belongs.
func (f fields) folder(s *Server, name string) string {
	dir := ofHome(f.text(s, name))
	if dir != "" && (!path.IsAbs(dir) && !strings.HasPrefix(dir, "~/") || reference().MatchString(dir)) {
		s.note(f.at(name), "it is not an absolute path; set cwd in the block")
		return ""
	}
	return dir
}

func (f fields) oauth(s *Server, names map[string]string) { f.oauthInto(s, map[string]any{}, names) }

// oauthInto sets how to log in, besides what is known of it.
func (f fields) oauthInto(s *Server, oauth map[string]any, names map[string]string) {
	v, ok := f.left["oauth"]
	delete(f.left, "oauth")
	m, _ := v.(map[string]any)
	for _, theirs := range slices.Sorted(maps.Keys(m)) {
		ours, known := names[theirs]
		switch v := m[theirs].(type) {
		case string:
			switch {
			case !known:
				s.note(f.at("oauth", theirs), "gantry has no such setting")
			case ours == "scopes":
				oauth[ours] = strings.Fields(v)
			case ours == "client_secret":
				if v := f.value(s, "client_secret", v, "oauth", theirs); v != nil {
					oauth[ours] = v
				}
			default:
				oauth[ours] = v
			}
		case float64:
			if ours == "callback_port" {
				oauth[ours] = v
				continue
			}
			s.note(f.at("oauth", theirs), "gantry has no such setting")
		default:
			s.note(f.at("oauth", theirs), "gantry has no such setting")
		}
	}
	if ok && m == nil && v != false {
		s.note(f.at("oauth"), "it is not an object")
	}
	headers, _ := s.Block["headers"].(map[string]any)
	token := s.Block["bearer_token"] != nil || slices.ContainsFunc(slices.Collect(maps.Keys(headers)), func(h string) bool { return strings.EqualFold(h, "Authorization") })
	switch {
	case len(oauth) == 0:
	case token:
		at := "oauth"
		if !ok {
			at = "scopes"
		}
		s.note(f.at(at), fmt.Sprintf("left out: %s, because a server has either a login or a token; to log in, replace the token in the block by oauth", strings.Join(slices.Sorted(maps.Keys(oauth)), ", ")))
	default:
		s.Block["oauth"] = oauth
	}
}
