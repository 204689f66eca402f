package workbench

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
)

// Of too many changes the client learns that there were some.
func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	w := &watch{path: "/w", changed: map[string]bool{}}
	for i := range 3 * maxChanged {
		w.add("/w/" + strconv.Itoa(i))
		if len(w.changed) > maxChanged {
			t.Fatalf("%d paths", len(w.changed))
		}
	}
	if got := slices.Collect(maps.Keys(w.changed)); !slices.Equal(got, []string{"/w"}) {
		t.Errorf("%q", got)
	}
}

// A search ends the earlier one with its token, and no other.
func TestSearchIsReplacedByToken(t *testing.T) {
	t.Parallel()
	var s searches
	begin := func(token string) (context.Context, func()) {
		ctx, cancel := context.WithCancelCause(t.Context())
		return ctx, s.replace(token, &search{cancel})
	}
	first, freeFirst := begin("a")
	other, freeOther := begin("b")
	second, freeSecond := begin("a")
	freeFirst()
	third, freeThird := begin("a")
	for i, ctx := range []context.Context{first, second} {
		if !errors.Is(context.Cause(ctx), errReplaced) {
			t.Errorf("search %d was not replaced", i+1)
		}
	}
	for _, ctx := range []context.Context{other, third} {
		if ctx.Err() != nil {
			t.Error("another search was replaced")
		}
	}
	freeSecond()
	freeThird()
	freeOther()
	if len(s.byToken) != 0 {
		t.Errorf("%d tokens are left", len(s.byToken))
	}
}
