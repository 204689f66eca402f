package e2e_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the sites of a profile have stored is there in a later thread's browser, for all of them and for no others, and no file has it in the clear.
func TestBrowserProfiles(t *testing.T) {
	t.Parallel()
	const value = "value-of-a-visit-that-is-kept"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,>")
		if r.URL.Path == "/set" {
			fmt.Fprintf(w, "<script>const v = %q.split('').reverse().join(''); document.cookie = 'c=' + v + '; max-age=1000'; localStorage.s = v</script>stored", reverse(value))
			return
		}
		c, _ := r.Cookie("c")
		fmt.Fprintf(w, "cookie %v<script>document.write(' storage ' + (localStorage.s == %q.split('').reverse().join('')))</script>", c != nil && c.Value == value, reverse(value))
	}))
	t.Cleanup(s.Close)
	other := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	open := func(id, url string) string { return act(id, fmt.Sprintf("{ navigate = { url = %q } }", url)) }
	r := newBrowserWith(t, browsers[0], "    profile \"work\" {\n      domains = [\"127.0.0.1\"]\n    }", open("c1", s.URL)+open("c2", other)+open("c3", s.URL+"/set")+open("c4", other+"/set")+done)
	for run, mine := range []string{"cookie false\nstorage false", "cookie true\nstorage true"} {
		r.OK(append(append([]string{"exec"}, bothAddresses("workspace-write")...), "go")...)
		out := r.Last().Outputs()
		for id, want := range map[string]string{"c1": mine, "c2": "cookie false\nstorage false", "c3": "stored", "c4": "stored"} {
			if !strings.Contains(out[id], want) {
				t.Errorf("run %d: %s has no %q:\n%s", run+1, id, want, out[id])
			}
		}
	}
	err := filepath.WalkDir(r.Home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(value)) {
			t.Errorf("%s has what was stored, in the clear", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	r.NothingLeft()
	noProfileLeft(t, r)
}

// A browser that a script starts has what is kept of the profiles, too, and its end does not replace that by the beginning of a visit.
func TestBrowserProfilesOfScripts(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		c, err := r.Cookie("visit")
		if err != nil || r.URL.Path == "/log-in" {
			c = &http.Cookie{Name: "visit", Value: "of" + strings.ReplaceAll(r.URL.Path, "/", "-"), Path: "/", MaxAge: 1000}
			http.SetCookie(w, c)
		}
		fmt.Fprintf(w, "<!doctype html><link rel=icon href=data:,>this is the visit %s", c.Value)
	}))
	t.Cleanup(s.Close)
	look := fmt.Sprintf("await page.goto_url(%q); return await page.js('document.body.textContent')", s.URL)
	r := newBrowserWith(t, browsers[0], "    profile \"work\" {\n      domains = [\"127.0.0.1\"]\n    }",
		execute("c1", look, `, session = "one-shot"`)+execute("c2", look, "")+act("c3", fmt.Sprintf("{ navigate = { url = %q } }", s.URL+"/log-in"))+done)
	for run, visit := range []string{"of-", "of-log-in"} {
		r.OK(append(append([]string{"exec"}, bothAddresses("workspace-write")...), "go")...)
		out := r.Last().Outputs()
		for id, want := range map[string]string{"c1": visit, "c2": visit, "c3": "of-log-in"} {
			if !strings.Contains(out[id], "this is the visit "+want) || want == "of-" && strings.Contains(out[id], "of-log-in") {
				t.Errorf("run %d: %s has no %q:\n%s", run+1, id, want, out[id])
			}
		}
	}
	r.NothingLeft()
	noProfileLeft(t, r)
}

func reverse(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}
