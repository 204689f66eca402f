package box

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/quarantine"
)

// roots resolves the writable roots and returns their identities as well. Roots that do not exist are left out.
func (b *Sandbox) roots(asked []string) (roots []string, known map[string]fspath.Identity, err error) {
	var failed error
	known = map[string]fspath.Identity{}
	for _, r := range asked {
		if !filepath.IsAbs(r) {
			return nil, nil, fmt.Errorf("the writable root %q is not absolute; write it as an absolute path", r)
		}
		real, err := filepath.EvalSymlinks(r)
		if fspath.IsNotExist(err) {
			continue
		}
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("the writable root %s can't be used: %w", r, err))
			continue
		}
		real = fspath.Spelled(real)
		switch {
		case real == "/":
			return nil, nil, fmt.Errorf("the writable root / is the whole machine; name folders, or set sandbox { mode = \"full-access\" }")
		case b.home != "" && (real == b.home || fspath.Below(real, b.home)):
			return nil, nil, fmt.Errorf("the writable root %s is gantry's own folder, which contains keys and permissions; work in another one", r)
		}
		if slices.Contains(roots, real) {
			continue
		}
		// The mount is compared with this identity from inside the sandbox: in between, others may rename anything.
		id, _, ok := fspath.Lstat(real)
		if !ok {
			return nil, nil, fmt.Errorf("the writable root %s has just disappeared; try again", r)
		}
		roots, known[real] = append(roots, real), id
	}
	for _, r := range asked {
		if link := fspath.LinkIn(r, roots); link != "" {
			return nil, nil, &rootLinkError{root: r, link: link}
		}
	}
	if failed != nil {
		return nil, nil, failed
	}
	return roots, known, nil
}

// rootLinkError says that a writable root leads through a symbolic link that commands could replace.
type rootLinkError struct{ root, link string }

func (e *rootLinkError) Error() string {
	next := "remove the link"
	if to, err := filepath.EvalSymlinks(e.root); err == nil {
		next = "name " + to + " instead, or remove the link"
	}
	return fmt.Sprintf("the writable root %s leads through the symbolic link %s, which commands can make lead anywhere; %s", e.root, e.link, next)
}

// rootsNow returns the writable roots after moving aside symbolic links that commands have put in their place.
func (b *Sandbox) rootsNow(owner launch.Owner, asked []string) (roots []string, known map[string]fspath.Identity, err error) {
	for range quarantine.Attempts {
		var link *rootLinkError
		if roots, known, err = b.roots(asked); !errors.As(err, &link) || !b.guard.RemoveLink(owner, link.link) {
			break
		}
	}
	return roots, known, err
}
