package capture

import (
	"context"
	_ "embed" // the script
	"strconv"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/accessibility"
	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"
)

//go:embed identity.js
var identity string

// Element is what an element is recognized by.
type Element struct {
	ID         int
	Gone       bool // from the page; the rest is empty then
	Path       []string
	XPath      string
	Attributes map[string]string
	Rect       [4]float64 // left, top, width, height, in its frame
	Name       string     // in the accessibility tree
}

// Identify returns what elements of the frame are recognized by, in the order of their IDs.
func (f *Frame) Identify(ctx context.Context, ids []int) ([]Element, error) {
	var out []Element
	if err := f.Call(ctx, "identify", &out, ids); err != nil || len(out) == 0 {
		return out, err
	}
	above, err := f.above(ctx)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Path = append(above[:len(above):len(above)], out[i].Path...)
	}
	objects, err := f.references(ctx, ids)
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = f.Session.Post(runtime.CommandReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: worldName})
		_ = f.Session.Post(accessibility.CommandDisable, protocol.Empty{}) // the browser keeps the tree up to date until then
	}()
	if _, err := protocol.Call(ctx, f.Session, accessibility.Enable, protocol.Empty{}); err != nil {
		return nil, err
	}
	name := f.name
	if len(ids) > maxNamed {
		if name, err = f.names(ctx); err != nil {
			return nil, err
		}
	}
	var work sync.WaitGroup
	for i, id := range ids {
		if o := objects[id]; o != "" {
			work.Go(func() { out[i].Name = name(ctx, o) })
		}
	}
	work.Wait()
	return out, ctx.Err()
}

// maxNamed is the number of elements whose names are read one by one; for more, reading all at once is faster.
const maxNamed = 100

// names reads the names of all elements of the frame, and returns a function that tells that of one of them.
func (f *Frame) names(ctx context.Context) (func(ctx context.Context, o runtime.RemoteObjectID) string, error) {
	tree, err := protocol.Call(ctx, f.Session, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{FrameID: protocol.FrameID(f.ID)})
	if err != nil {
		return nil, err
	}
	all := map[protocol.BackendNodeID]string{}
	for _, n := range tree.Nodes {
		if !n.Ignored {
			all[n.BackendDOMNodeID] = nameOf(n)
		}
	}
	return func(ctx context.Context, o runtime.RemoteObjectID) string {
		d, err := protocol.Call(ctx, f.Session, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: o})
		if err != nil || d.Node == nil {
			return ""
		}
		return all[d.Node.BackendNodeID]
	}, nil
}

// above returns the tags above the frame's document.
func (f *Frame) above(ctx context.Context) ([]string, error) {
	if f.Parent == nil {
		return nil, nil
	}
	rest, err := f.Parent.above(ctx)
	if err != nil {
		return nil, err
	}
	var owner []Element
	if err := f.Parent.Call(ctx, "identify", &owner, []int{f.Owner}); err != nil {
		return nil, err
	}
	return append(rest, owner[0].Path...), nil
}

// name returns the name of an element in the accessibility tree; "": it has none.
func (f *Frame) name(ctx context.Context, o runtime.RemoteObjectID) string {
	r, err := protocol.Call(ctx, f.Session, accessibility.GetPartialAXTree, accessibility.GetPartialAXTreeParams{ObjectID: o, FetchRelatives: new(false)})
	if err != nil || len(r.Nodes) == 0 {
		return ""
	}
	return nameOf(r.Nodes[0])
}

func nameOf(n *accessibility.Node) string {
	var name string
	if n.Name == nil || jsonv2.Unmarshal(n.Name.Value, &name, jsonv2.AllowInvalidUTF8(true)) != nil {
		return ""
	}
	return strings.ToValidUTF8(name, "\ufffd")
}

// Content is what is seen of a page.
type Content struct {
	HTML       string
	URL, Title string
	Cut        bool // it was too large
}

// maxContent is the size of the HTML of a frame.
const maxContent = 8 << 20

// maxNesting is how deep frames may be nested.
const maxNesting = 8

// Content returns the HTML of what is seen in the page and in its frames, wherever it is scrolled to. token must not be known to the page.
func (p *Page) Content(ctx context.Context, token string, links, images bool) (Content, error) {
	parts := make([]Content, len(p.Frames))
	var err error
	index := map[*Frame]int{}
	for i, f := range p.Frames {
		index[f] = i
	}
	read := func(f *Frame) error { return f.Call(ctx, "html", &parts[index[f]], token, links, images, maxContent) }
	each(p.Frames, func(f *Frame) { err = read(f) }, func(f *Frame) { _ = read(f) }) // a frame that can't be read is empty
	if err != nil {
		return Content{}, err
	}
	var fill func(i, depth int) string
	fill = func(i, depth int) string {
		text := parts[i].HTML
		for j, f := range p.Frames {
			if f.Parent != p.Frames[i] {
				continue
			}
			inner := ""
			if depth < maxNesting {
				inner = fill(j, depth+1)
			}
			text = strings.Replace(text, token+strconv.Itoa(f.Owner)+";", inner, 1)
		}
		return text
	}
	out := parts[0]
	out.HTML = fill(0, 0)
	for _, x := range parts {
		out.Cut = out.Cut || x.Cut
	}
	return out, nil
}
