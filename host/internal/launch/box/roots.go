package box

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// roots are the writable roots as the kernel knows them, and which folders they are. Those that are not there are left out.
func (b *Box) roots(asked []string) (roots []string, known map[string]identity, err error) {
	known = map[string]identity{}
	for _, r := range asked {
		if !filepath.IsAbs(r) {
			return nil, nil, fmt.Errorf("the writable root %q is not absolute; write it from the root of the file system", r)
		}
		real, err := filepath.EvalSymlinks(r)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the writable root %s can't be used: %w", r, err)
		}
		real = spelled(real)
		switch {
		case real == "/":
			return nil, nil, fmt.Errorf("the writable root / is the whole machine; name folders, or set sandbox { mode = \"full-access\" }")
		case b.home != "" && (real == b.home || below(real, b.home)):
			return nil, nil, fmt.Errorf("the writable root %s is gantry's own folder, which holds keys and what is allowed; work in another one", r)
		}
		if slices.Contains(roots, real) {
			continue
		}
		// What is bound is compared with this from inside the box: in between others may rename what they like.
		id, _, ok := identify(real)
		if !ok {
			return nil, nil, fmt.Errorf("the writable root %s was there and is gone; try again", r)
		}
		roots, known[real] = append(roots, real), id
	}
	for _, r := range asked {
		if link := linkIn(r, roots); link != "" {
			return nil, nil, fmt.Errorf("the writable root %s leads through the symbolic link %s, which commands can make lead anywhere; name the folder itself", r, link)
		}
	}
	return roots, known, nil
}

// linkIn is a symbolic link on the way of a path that lies in one of the roots, so that whoever may write there could have made
// it; empty: there is none.
func linkIn(path string, roots []string) string {
	at := "/"
	for name := range strings.SplitSeq(filepath.Clean(path), "/") {
		next := filepath.Join(at, name)
		real, err := filepath.EvalSymlinks(next)
		if err != nil {
			return ""
		}
		if real != next && insideAny(next, roots) {
			return next
		}
		at = real
	}
	return ""
}
