package capture

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/accessibility"
	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/state"
)

// What scripts can't see: closed shadow roots, and the names that elements of the page's own kinds give themselves. Both are asked for only where
// they may be, because the browser's lists of them take several times as long as everything else.

const (
	// maxShadows is how deep closed shadow roots may be within each other.
	maxShadows = 4
	// maxDescribed is the number of elements whose roles and names are asked for.
	maxDescribed = 20
)

// result is what the script returns of a frame.
type result struct {
	state.Frame
	Error   string
	Hosts   []int // elements that may have closed shadow roots
	Unnamed []int // elements of the page's own kinds that have neither text nor label
}

// references returns elements as objects. Those that are gone are left out.
func (f *Frame) references(ctx context.Context, ids []int) (map[int]runtime.RemoteObjectID, error) {
	b, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	list, err := protocol.Call(ctx, f.Session, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: "function(ids) { return Object.fromEntries(ids.map(i => [i, gantry.get(i)])) }", Arguments: []*runtime.CallArgument{{Value: jsonv2.Value(b)}},
		ExecutionContextID: f.world, ObjectGroup: worldName, Silent: new(true),
	})
	if err != nil {
		return nil, err
	}
	if list.Result == nil || list.Result.ObjectID == "" {
		return nil, ErrChanged
	}
	props, err := protocol.Call(ctx, f.Session, runtime.GetProperties, runtime.GetPropertiesParams{ObjectID: list.Result.ObjectID, OwnProperties: new(true)})
	if err != nil {
		return nil, err
	}
	out := map[int]runtime.RemoteObjectID{}
	for _, p := range props.Result {
		if i, err := strconv.Atoi(p.Name); err == nil && p.Value != nil && p.Value.ObjectID != "" {
			out[i] = p.Value.ObjectID
		}
	}
	return out, nil
}

// closed returns the closed shadow roots that elements have.
func (f *Frame) closed(ctx context.Context, hosts []int) []runtime.RemoteObjectID {
	if len(hosts) == 0 {
		return nil
	}
	objects, err := f.references(ctx, hosts)
	if err != nil {
		return nil // the page is shown without them
	}
	var mu sync.Mutex
	var out []runtime.RemoteObjectID
	var work sync.WaitGroup
	for _, o := range objects {
		work.Go(func() {
			d, err := protocol.Call(ctx, f.Session, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: o, Depth: new(int64(1)), Pierce: new(true)})
			if err != nil || d.Node == nil {
				return
			}
			for _, s := range d.Node.ShadowRoots {
				if s.ShadowRootType != protocol.ShadowRootTypeClosed {
					continue
				}
				if root, err := f.resolve(ctx, s.BackendNodeID); err == nil {
					mu.Lock()
					out = append(out, root)
					mu.Unlock()
				}
			}
		})
	}
	work.Wait()
	return out
}

// describe adds the roles and names that elements have in the accessibility tree only.
func (f *Frame) describe(ctx context.Context, r *result) {
	if len(r.Unnamed) == 0 {
		return
	}
	ids := r.Unnamed[:min(len(r.Unnamed), maxDescribed)]
	objects, err := f.references(ctx, ids)
	if err != nil {
		return
	}
	if _, err := protocol.Call(ctx, f.Session, accessibility.Enable, protocol.Empty{}); err != nil {
		return
	}
	found := make([][][2]string, len(ids))
	var work sync.WaitGroup
	for i, id := range ids {
		if o := objects[id]; o != "" {
			work.Go(func() { found[i] = f.accessible(ctx, o) })
		}
	}
	work.Wait()
	_ = f.Session.Post(accessibility.CommandDisable, protocol.Empty{}) // the browser keeps the tree up to date until then
	var add func(list []*state.Node)
	add = func(list []*state.Node) {
		for _, n := range list {
			if n == nil {
				continue
			}
			if i := slices.Index(ids, n.ID); i >= 0 {
				n.Attrs = append(n.Attrs, found[i]...)
			}
			add(n.Kids)
		}
	}
	add(r.Nodes)
}

// accessible returns the role and the name of an element in the accessibility tree, as attributes.
func (f *Frame) accessible(ctx context.Context, o runtime.RemoteObjectID) [][2]string {
	const most = 100
	r, err := protocol.Call(ctx, f.Session, accessibility.GetPartialAXTree, accessibility.GetPartialAXTreeParams{ObjectID: o, FetchRelatives: new(false)})
	if err != nil || len(r.Nodes) == 0 {
		return nil
	}
	var out [][2]string
	for i, v := range []*accessibility.Value{r.Nodes[0].Role, r.Nodes[0].Name} {
		var s string
		if v == nil || jsonv2.Unmarshal(v.Value, &s, jsonv2.AllowInvalidUTF8(true)) != nil {
			continue
		}
		s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
		if s == "" || i == 0 && (s == "generic" || s == "none") {
			continue
		}
		if len(s) > most {
			s = strings.ToValidUTF8(s[:most], "") + "..."
		}
		out = append(out, [2]string{[]string{"role", "ax_name"}[i], s})
	}
	return out
}
