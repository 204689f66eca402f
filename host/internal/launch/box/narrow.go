package box

import (
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/kernel"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// planNarrow lays out a narrow sandbox. Its folders are not the user's, so what appears in them is not examined. With readOnly there are no
// folders.
func (b *Sandbox) planNarrow(g launch.Grant, readOnly bool, program, helper string) (*plan, error) {
	d := &plan{helper: helper}
	known := map[string]fspath.Inode{}
	if !readOnly {
		for _, p := range g.WritableRoots {
			// A process that can write what leads to the folder may have replaced it with a link to another one.
			id, err := folderWithoutLinks(p)
			if err != nil {
				return nil, fmt.Errorf("the folder %s can't be shown in the sandbox: %w", p, err)
			}
			known[p] = id
		}
	}
	var roots []string
	for _, p := range g.WritableRoots {
		if _, ok := known[p]; ok && !fspath.BelowAny(p, g.WritableRoots) && !slices.Contains(roots, p) {
			roots = append(roots, p)
		}
	}
	v, _, err := b.view(g, roots, nil)
	if err != nil {
		return nil, err
	}
	if b.programs == nil || !slices.Contains(b.programs(), program) {
		program = ""
	}
	args, err := b.arguments(g, v, program)
	if err != nil {
		return nil, err
	}
	d.view = v
	d.box = &control.Box{Helper: helper, Args: args, Filter: kernel.NarrowFilter(), Listen: g.Proxied, KernelReadOnly: root()}
	d.box.Handled, d.box.Scoped, d.box.Rules = kernel.LandlockRules(append(slices.Clone(roots), "/tmp"), true)
	for i, r := range d.box.Rules {
		d.box.Rules[i].Dev, d.box.Rules[i].Ino = known[r.Path].Dev, known[r.Path].Ino
	}
	d.box.Covers = v.covers()
	return d, nil
}
