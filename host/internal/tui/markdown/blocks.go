package markdown

import (
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// CodeBlocks returns the blocks of code of a text as they are written, without fences and indentation.
func CodeBlocks(src string) []string {
	b := []byte(src)
	var out []string
	w := walker{src: b}
	_ = ast.Walk(newParser().Parse(text.NewReader(b)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n.Kind() == ast.KindFencedCodeBlock || n.Kind() == ast.KindCodeBlock {
			if entering {
				out = append(out, w.lines(n))
			}
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return out
}
