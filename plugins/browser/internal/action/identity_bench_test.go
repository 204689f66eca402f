//go:build unix

package action_test

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkIdentities reads what all elements of a page are recognized by, as a replay does for each of its actions.
func BenchmarkIdentities(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := newRig(b)
			x.open(`<div style="width:1200px;font:9px x">` + strings.Repeat(`<button style="width:20px;height:9px;padding:0;font:6px x">b</button>`, n) + `</div>`)
			tab, err := x.Tab(x.ctx, "")
			if err != nil {
				b.Fatal(err)
			}
			s := x.take()
			for b.Loop() {
				if got, err := x.Candidates(x.ctx, tab, s); err != nil || len(got) != n || got[n-1].Name != "b" {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
