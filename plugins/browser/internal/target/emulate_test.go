//go:build unix

package target_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// Settings of the browser hold for tabs that are open, and for those that are opened later. The latest ones count.
func TestSettingsOfAllTabs(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<p>x")
	}))
	t.Cleanup(s.Close)
	ctx, b := open(t, target.Options{})
	block := func(patterns ...string) []target.Setting {
		list := []*network.BlockPattern{}
		for _, p := range patterns {
			list = append(list, &network.BlockPattern{URLPattern: p, Block: true})
		}
		return []target.Setting{{Method: network.CommandSetBlockedURLs, Params: network.SetBlockedURLsParams{URLPatterns: list}}}
	}
	loads := func(x *target.Tab) string {
		t.Helper()
		v, err := protocol.Call(ctx, x.Session, runtime.Evaluate, runtime.EvaluateParams{
			Expression: "fetch('/blocked').then(() => 'loaded', () => 'blocked')", AwaitPromise: new(true), ReturnByValue: new(true),
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(v.Result.Value)
	}
	early := tab(ctx, t, b, s.URL+"/")
	if err := b.Apply(ctx, block("*://127.0.0.1:*/blocked")); err != nil {
		t.Fatal(err)
	}
	late := tab(ctx, t, b, s.URL+"/")
	for _, x := range []*target.Tab{early, late} {
		if got := loads(x); got != `"blocked"` {
			t.Error(got)
		}
	}
	if err := b.Apply(ctx, block()); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*target.Tab{early, late, tab(ctx, t, b, s.URL+"/")} {
		if got := loads(x); got != `"loaded"` {
			t.Error(got)
		}
	}
}

// Dialogs are answered at once if that is wanted, and a note tells of them.
func TestAnsweredDialogs(t *testing.T) {
	s := serve(t)
	ctx, b := open(t, target.Options{})
	x := tab(ctx, t, b, s.URL+"/a")
	for how, want := range map[string]string{"accept": "true", "dismiss": "false"} {
		b.AnswerDialogs(how)
		if err := eval(ctx, x, "if (confirm('sure?') != "+want+") throw 'wrong'; alert('done')"); err != nil {
			t.Errorf("%s: %v", how, err)
		}
		if n := x.TakeNotes(); len(n) != 2 || n[0] != "[confirm] sure?" || n[1] != "[alert] done" {
			t.Errorf("%s: %q", how, n)
		}
	}
	if err := b.Ping(ctx); err != nil {
		t.Error(err)
	}
	b.Close()
	if err := b.Ping(ctx); err == nil {
		t.Error("a browser without a connection answers")
	}
}
