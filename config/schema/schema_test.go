package schema

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Every entry has words, and names that don't collide.
func TestTableIsComplete(t *testing.T) {
	var walk func(b *Block, path string)
	walk = func(b *Block, path string) {
		if b.Doc == "" {
			t.Errorf("%s has no description", path)
		}
		names := b.Names()
		slices.Sort(names)
		if len(slices.Compact(names)) != len(b.Names()) {
			t.Errorf("%s has a name twice: %v", path, names)
		}
		for _, a := range b.Attributes {
			if a.Doc == "" || a.Kind == Unknown || a.Kind.Example() == "a value" {
				t.Errorf("%s.%s has no description or kind", path, a.Name)
			}
			if a.Required && a.Default != "" {
				t.Errorf("%s.%s is required and has a default", path, a.Name)
			}
			if d := strings.Trim(a.Default, `"`); len(a.Allowed) > 0 && a.Default != "" && !strings.HasPrefix(a.Default, "(") && !slices.Contains(a.Allowed, d) {
				t.Errorf("%s.%s: default %s is not allowed", path, a.Name, a.Default)
			}
		}
		for _, c := range b.Blocks {
			walk(c, path+"."+c.Name)
		}
	}
	walk(Root(), "root")
}

func TestReferenceNamesEverything(t *testing.T) {
	markdown := Markdown()
	var form struct {
		Blocks []struct {
			Name   string
			SameAs string `json:"same_as"`
		}
	}
	if err := json.Unmarshal(JSON(), &form); err != nil {
		t.Fatal(err)
	}
	if len(form.Blocks) != len(Root().Blocks) || form.Blocks[len(form.Blocks)-1].SameAs != "root" {
		t.Errorf("JSON has the blocks %v", form.Blocks)
	}
	var walk func(b *Block)
	walk = func(b *Block) {
		for _, a := range b.Attributes {
			if !strings.Contains(markdown, "| `"+a.Name+"` |") {
				t.Errorf("%s.%s is not in the reference", b.Name, a.Name)
			}
		}
		for _, c := range b.Blocks {
			if !strings.Contains(markdown, c.Name+"`") {
				t.Errorf("block %s is not in the reference", c.Name)
			}
			if c.Name != BlockProfile {
				walk(c)
			}
		}
	}
	walk(Root())
}

func TestRootReturnsCopies(t *testing.T) {
	Root().Blocks[0].Name = "changed"
	if Root().Blocks[0].Name != BlockProvider {
		t.Error("two tables share their blocks")
	}
}
