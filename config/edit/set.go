package edit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/bind"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Change is a change of a setting.
type Change struct {
	// Path is the name of an argument or block, after the names of the blocks around it, each followed by its label if it has one: sandbox
	// mode, model default reasoning.
	Path []string
	// Value is a value as [json.Unmarshal] returns it, with numbers as [json.Number]. A block is an object of its arguments and blocks, and
	// blocks with labels are objects of objects. nil removes the setting.
	Value any
	// Replace removes the settings of a block that Value lacks. Otherwise they stay.
	Replace bool
}

// UnknownError is a path that the schema does not have.
type UnknownError struct {
	Path string
	Next string
}

func (e *UnknownError) Error() string { return fmt.Sprintf("unknown setting %q", e.Path) }

// NextStep implements [hint.Stepper].
func (e *UnknownError) NextStep() string { return e.Next }

// ErrNoBlock is wrapped by the error of Apply for a setting that should be removed from a block with a label that the file does not have.
var ErrNoBlock = errors.New("there is no such block")

// Apply makes changes in a file's text, in their order; name is the file's name in messages. What is not changed stays as it is, with its
// comments. Values are not checked, except that a block is an object and an argument is none.
//
// Settings that only a plugin's schema describes can't be changed.
func Apply(src []byte, name string, changes ...Change) ([]byte, error) {
	e := &editor{src: src, name: name}
	for _, c := range changes {
		if err := e.set(schema.Root(), nil, c.Path, nil, c.Value, c.Replace); err != nil {
			return nil, err
		}
	}
	return e.src, nil
}

// ApplyOwn makes changes of a plugin's own settings, as Apply does: the paths of the changes begin inside the block that at leads to,
// which is added if the file lacks it, and own describes its arguments and blocks. Values may be objects, and references to variables
// and secrets, see [contract.ConfigEdit].
func ApplyOwn(src []byte, name string, at []Block, own contract.ConfigBlock, changes ...Change) ([]byte, error) {
	s := described(own)
	e := &editor{src: src, name: name, own: true}
	for _, c := range changes {
		if len(c.Path) == 0 {
			return nil, &UnknownError{"", "name a setting"}
		}
		if err := e.set(s, at, c.Path, nil, c.Value, c.Replace); err != nil {
			return nil, err
		}
	}
	return e.src, nil
}

// described converts the description of a plugin's settings.
func described(b contract.ConfigBlock) *schema.Block {
	out := &schema.Block{}
	for _, a := range b.Attributes {
		out.Attributes = append(out.Attributes, schema.Attribute{Name: a.Name})
	}
	for _, n := range b.Blocks {
		if len(n.Labels) > 1 || len(n.Labels) == 0 && n.MaxItems != 1 {
			continue // several of them can't be told apart
		}
		own := n.Block
		if n.Process {
			own = bind.WithProcess(own)
		}
		inner := described(own)
		inner.Name = n.Name
		if len(n.Labels) == 1 {
			inner.Label = n.Labels[0]
		}
		out.Blocks = append(out.Blocks, inner)
	}
	return out
}

// editor changes a text step by step, and parses it again after each step: files are small.
type editor struct {
	src  []byte
	name string
	own  bool // a plugin's own settings, whose values may be objects and references
}

// set makes a change at path, below the blocks at. seen are the names that lead there.
func (e *editor) set(s *schema.Block, at []Block, path, seen []string, v any, replace bool) error {
	if len(path) == 0 {
		return e.setBlock(s, at, seen, v, replace)
	}
	head := path[0]
	seen = append(slices.Clone(seen), head)
	_, known := s.Attribute(head)
	if known || s.Open == schema.Variables && hclsyntax.ValidIdentifier(head) {
		if len(path) > 1 {
			return &UnknownError{strings.Join(append(seen, path[1:]...), "."), fmt.Sprintf("%q is an argument: remove what follows its name", head)}
		}
		return e.setArgument(at, head, seen, v)
	}
	b := s.Block(head)
	if b == nil {
		next := diag.DidYouMean(head, s.Names(), "`gantry config schema` lists the settings")
		if s.Open == schema.Rest || s.Open == schema.Plugin {
			next = "settings of plugins and providers are changed in " + e.name
		}
		return &UnknownError{strings.Join(seen, "."), next}
	}
	if b.Label == "" {
		return e.set(b, append(slices.Clone(at), Block{Type: head}), path[1:], seen, v, replace)
	}
	if len(path) > 1 {
		return e.set(b, append(slices.Clone(at), Block{head, path[1]}), path[2:], append(seen, path[1]), v, replace)
	}
	return e.setLabelled(b, at, seen, v, replace)
}

// setLabelled makes a change of all blocks of a type, which has labels.
func (e *editor) setLabelled(s *schema.Block, at []Block, seen []string, v any, replace bool) error {
	members, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("the value of %q must be an object with a member for each label", strings.Join(seen, "."))
	}
	if replace {
		in, missing, err := e.find(at)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			in.Body = &hclsyntax.Body{}
		}
		for _, b := range in.Body.Blocks {
			if b.Type == s.Name && len(b.Labels) == 1 {
				if _, keep := members[b.Labels[0]]; !keep {
					if err := e.removeBlock(append(slices.Clone(at), Block{s.Name, b.Labels[0]})); err != nil {
						return err
					}
				}
			}
		}
	}
	for _, label := range slices.Sorted(maps.Keys(members)) {
		inner := append(slices.Clone(at), Block{s.Name, label})
		if err := e.set(s, inner, nil, append(slices.Clone(seen), label), members[label], replace); err != nil {
			return err
		}
	}
	return nil
}

// setBlock makes a change of a block, which at ends with.
func (e *editor) setBlock(s *schema.Block, at []Block, seen []string, v any, replace bool) error {
	if len(at) == 0 {
		return &UnknownError{"", "name a setting"}
	}
	if v == nil {
		return e.removeBlock(at)
	}
	members, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%q is a block: its value must be an object", strings.Join(seen, "."))
	}
	if replace {
		if err := e.clear(at, members); err != nil {
			return err
		}
	}
	if err := e.create(at); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if err := e.set(s, at, []string{name}, seen, members[name], replace); err != nil {
			return err
		}
	}
	return nil
}

// clear removes the settings of a block that are not in keep.
func (e *editor) clear(at []Block, keep map[string]any) error {
	in, missing, err := e.find(at)
	if err != nil || len(missing) > 0 {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(in.Body.Attributes)) {
		if _, ok := keep[name]; !ok {
			if err := e.removeArgument(at, name); err != nil {
				return err
			}
		}
	}
	for _, b := range in.Body.Blocks {
		if _, ok := keep[b.Type]; !ok {
			if err := e.removeBlock(append(slices.Clone(at), blockOf(b))); err != nil {
				return err
			}
		}
	}
	return nil
}

// find returns the innermost block of at that the file has, and those that it lacks. The file is a block without braces.
func (e *editor) find(at []Block) (in *hclsyntax.Block, missing []Block, err error) {
	body, err := native(e.src, e.name, "change the setting by hand")
	if err != nil {
		return nil, nil, err
	}
	in = &hclsyntax.Block{Body: body}
	for i, b := range at {
		next := child(in.Body, b)
		if next == nil {
			return in, at[i:], nil
		}
		in = next
	}
	return in, nil, nil
}

func child(body *hclsyntax.Body, b Block) *hclsyntax.Block {
	i := slices.IndexFunc(body.Blocks, func(c *hclsyntax.Block) bool { return blockOf(c) == b })
	if i < 0 {
		return nil
	}
	return body.Blocks[i]
}

// blockOf identifies a block. The schema has none with two labels.
func blockOf(b *hclsyntax.Block) Block { return Block{b.Type, strings.Join(b.Labels, "\x00")} }

// setArgument sets or removes an argument of the block that at leads to.
func (e *editor) setArgument(at []Block, name string, seen []string, v any) error {
	if v == nil {
		return e.removeArgument(at, name)
	}
	tokens, err := e.tokensOf(v)
	if err != nil {
		return fmt.Errorf("the value of %q %w", strings.Join(seen, "."), err)
	}
	text := hclwrite.Format(tokens.Bytes())
	if err := e.create(at); err != nil {
		return err
	}
	in, _, err := e.find(at)
	if err != nil {
		return err
	}
	if a := in.Body.Attributes[name]; a != nil {
		from, to := a.EqualsRange.End.Byte, a.SrcRange.End.Byte // the range of an expression lacks parentheses around it
		e.splice(from, to, append([]byte(" "), text...))
		return nil
	}
	e.insert(in, name+" = "+string(text))
	return nil
}

// tokensOf converts a value of an argument.
func (e *editor) tokensOf(v any) (hclwrite.Tokens, error) {
	switch v := v.(type) {
	case string:
		return hclwrite.TokensForValue(cty.StringVal(v)), nil
	case bool:
		return hclwrite.TokensForValue(cty.BoolVal(v)), nil
	case json.Number:
		n, err := cty.ParseNumberVal(v.String())
		if err != nil {
			return nil, fmt.Errorf("is not a number: %w", err)
		}
		return hclwrite.TokensForValue(n), nil
	case []any:
		list := make([]hclwrite.Tokens, len(v))
		for i, x := range v {
			var err error
			if list[i], err = e.tokensOf(x); err != nil {
				return nil, err
			}
		}
		return hclwrite.TokensForTuple(list), nil
	case map[string]any:
		if e.own {
			return e.objectOf(v)
		}
	}
	if e.own {
		return nil, errors.New("must be a string, a number, true, false, a list or an object of these, or a reference")
	}
	return nil, errors.New("must be a string, a number, true, false or a list of these")
}

// objectOf converts an object, or a reference.
func (e *editor) objectOf(v map[string]any) (hclwrite.Tokens, error) {
	if name, ok := v["$env"].(string); ok && len(v) == 2 {
		if text, ok := v["$default"].(string); ok {
			return hclwrite.TokensForFunctionCall("env", hclwrite.TokensForValue(cty.StringVal(name)), hclwrite.TokensForValue(cty.StringVal(text))), nil
		}
	}
	for key, function := range map[string]string{"$env": "env", "$secret": "secret"} {
		if name, ok := v[key].(string); ok && len(v) == 1 {
			return hclwrite.TokensForFunctionCall(function, hclwrite.TokensForValue(cty.StringVal(name))), nil
		}
	}
	var members []hclwrite.ObjectAttrTokens
	for _, name := range slices.Sorted(maps.Keys(v)) {
		value, err := e.tokensOf(v[name])
		if err != nil {
			return nil, err
		}
		key := hclwrite.TokensForValue(cty.StringVal(name))
		if hclsyntax.ValidIdentifier(name) {
			key = hclwrite.TokensForIdentifier(name)
		}
		members = append(members, hclwrite.ObjectAttrTokens{Name: key, Value: value})
	}
	return hclwrite.TokensForObject(members), nil
}

// create adds the blocks of at that the file lacks.
func (e *editor) create(at []Block) error {
	in, missing, err := e.find(at)
	if err != nil || len(missing) == 0 {
		return err
	}
	for i, b := range missing {
		header := b.Type
		if b.Label != "" {
			header += " " + string(hclwrite.TokensForValue(cty.StringVal(b.Label)).Bytes())
		}
		e.insert(in, header+" {\n}")
		if in, _, err = e.find(at[:len(at)-len(missing)+i+1]); err != nil {
			return err
		}
	}
	return nil
}

// insert adds an argument or an empty block at the end of a block, or of the file.
func (e *editor) insert(in *hclsyntax.Block, text string) {
	open, end := in.OpenBraceRange.End.Byte, in.CloseBraceRange.Start.Byte
	if end == 0 { // the file
		head := bytes.TrimRight(e.src, " \t\r\n")
		if len(head) > 0 {
			text = "\n\n" + text
		}
		e.src = append(slices.Clone(head), text+"\n"...)
		return
	}
	line := e.src[bytes.LastIndexByte(e.src[:in.TypeRange.Start.Byte], '\n')+1:]
	indent := string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
	text = indent + "  " + strings.ReplaceAll(text, "\n", "\n"+indent+"  ") + "\n"
	inside := e.src[open:end]
	if !bytes.ContainsRune(inside, '\n') { // a block in one line has room for one argument only
		if there := strings.TrimSpace(string(inside)); there != "" {
			text = indent + "  " + there + "\n" + text
		}
		e.splice(open, end, []byte("\n"+text+indent))
		return
	}
	start := bytes.LastIndexByte(e.src[:end], '\n') + 1
	if len(bytes.TrimSpace(e.src[start:end])) > 0 { // a comment
		e.splice(end, end, []byte("\n"+text+indent))
		return
	}
	e.splice(start, start, []byte(text))
}

// removeArgument removes an argument with its comments. It is no error if there is none, unless the block with a label is missing.
func (e *editor) removeArgument(at []Block, name string) error {
	in, missing, err := e.find(at)
	if err != nil || len(missing) > 0 {
		return errors.Join(err, noBlock(missing))
	}
	if a := in.Body.Attributes[name]; a != nil {
		e.remove(a.SrcRange)
	}
	return nil
}

func (e *editor) removeBlock(at []Block) error {
	in, missing, err := e.find(at[:len(at)-1])
	if err != nil || len(missing) > 0 {
		return errors.Join(err, noBlock(missing))
	}
	b := child(in.Body, at[len(at)-1])
	if b == nil {
		return noBlock(at[len(at)-1:])
	}
	e.remove(hcl.RangeBetween(b.TypeRange, b.CloseBraceRange))
	return nil
}

// noBlock returns an error if a missing block has a label.
func noBlock(missing []Block) error {
	for _, b := range missing {
		if b.Label != "" {
			return fmt.Errorf("%w: %s", ErrNoBlock, b)
		}
	}
	return nil
}

// remove removes a part of the text: with its lines, and the comment directly above it, if there is nothing else on them.
func (e *editor) remove(r hcl.Range) {
	from, to := r.Start.Byte, r.End.Byte
	before := e.src[bytes.LastIndexByte(e.src[:from], '\n')+1 : from]
	after, _, _ := bytes.Cut(e.src[to:], []byte("\n"))
	if rest := bytes.TrimSpace(after); len(bytes.TrimSpace(before)) > 0 || len(rest) > 0 && rest[0] != '#' && !bytes.HasPrefix(rest, []byte("//")) {
		e.splice(from, to, nil)
		return
	}
	from, to = lines(e.src, from, to)
	e.splice(from, to, nil)
}

func (e *editor) splice(from, to int, text []byte) {
	e.src = slices.Concat(e.src[:from], text, e.src[to:])
}
