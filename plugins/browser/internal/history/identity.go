package history

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Identity is what an element is recognized by.
type Identity struct {
	Path       []string          // tags from the top of the page, through frames and shadow roots
	Attributes map[string]string // as in the source
	Name       string            // in the accessibility tree
	XPath      string            // in its frame
	Frame      string
}

// hashed are the attributes that belong to an element's identity.
var hashed = []string{
	"class", "id", "name", "type", "placeholder", "aria-label", "title", "role", "data-testid", "data-test", "data-cy", "data-selenium", "for", "required",
	"disabled", "readonly", "checked", "selected", "multiple", "accept", "href", "target", "rel", "aria-describedby", "aria-labelledby", "aria-controls",
	"aria-owns", "aria-live", "aria-atomic", "aria-busy", "aria-disabled", "aria-hidden", "aria-pressed", "aria-autocomplete", "aria-checked", "aria-selected",
	"list", "tabindex", "alt", "src", "lang", "itemscope", "itemtype", "itemprop", "pseudo", "aria-valuemin", "aria-valuemax", "aria-valuenow", "aria-placeholder",
}

// passing are parts of classes that come and go with what happens to an element.
var passing = []string{
	"focus", "hover", "active", "selected", "disabled", "animation", "transition", "loading", "open", "closed", "expanded", "collapsed", "visible", "hidden",
	"pressed", "checked", "highlighted", "current", "entering", "leaving",
}

// Tag returns the element's tag.
func (i Identity) Tag() string {
	if len(i.Path) == 0 {
		return ""
	}
	return i.Path[len(i.Path)-1]
}

// Hash returns the hash by which the element is found again if nothing about it has changed.
func (i Identity) Hash() Hash {
	// Files have values of 2^63 and more as Python's hash() returns them.
	const tooLarge, modulus = 1 << 63, 1<<61 - 1
	h := i.hash(i.Attributes)
	if h >= tooLarge {
		h %= modulus
	}
	return Hash(h)
}

// StableHash returns the hash without classes that come and go.
func (i Identity) StableHash() Hash {
	attributes := maps.Clone(i.Attributes)
	if class, ok := attributes["class"]; ok {
		kept := slices.DeleteFunc(strings.Fields(class), func(token string) bool {
			return slices.ContainsFunc(passing, func(p string) bool { return strings.Contains(token, p) })
		})
		slices.Sort(kept)
		if attributes["class"] = strings.Join(kept, " "); len(kept) == 0 {
			delete(attributes, "class")
		}
	}
	return Hash(i.hash(attributes))
}

func (i Identity) hash(attributes map[string]string) uint64 {
	var b strings.Builder
	b.WriteString(strings.Join(i.Path, "/"))
	b.WriteByte('|')
	for _, k := range slices.Sorted(maps.Keys(attributes)) {
		if slices.Contains(hashed, k) {
			b.WriteString(k + "=" + attributes[k])
		}
	}
	if i.Name != "" {
		b.WriteString("|ax_name=" + i.Name)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return binary.BigEndian.Uint64(sum[:])
}

// Element returns how the element is stored.
func (i Identity) Element() *Element {
	stable := i.StableHash()
	e := &Element{
		XPath: i.XPath, ElementHash: i.Hash(), StableHash: &stable, Attributes: i.Attributes, NodeName: strings.ToUpper(i.Tag()), NodeType: json.RawMessage("1"),
	}
	if i.Name != "" {
		e.Name = &i.Name
	}
	if i.Frame != "" {
		e.FrameID = &i.Frame
	}
	return e
}
