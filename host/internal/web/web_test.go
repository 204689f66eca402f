package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page returns a page whose only thread is "t", with the artifacts.
func page(t *testing.T, artifacts ...string) *Page {
	t.Helper()
	p, err := New(Config{Artifact: func(_ context.Context, thread, digest string) (io.ReadCloser, error) {
		for _, a := range artifacts {
			if thread == "t" && digest == digestOf(a) {
				return io.NopCloser(strings.NewReader(a)), nil
			}
		}
		return nil, fmt.Errorf("%w: %s", ErrNoArtifact, digest)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// do serves a request.
func do(p *Page, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:1"+path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// codeOf returns the code of a new link.
func codeOf(t *testing.T, p *Page) string {
	t.Helper()
	_, code, ok := strings.Cut(p.Link("http://127.0.0.1:1/"), "/#code=")
	if !ok || len(code) < 43 {
		t.Fatalf("code %q", code)
	}
	return code
}

// exchange returns the status and the token that a code is exchanged for.
func exchange(p *Page, code string) (int, string) {
	w := do(p, "POST", "/session", `{"code":"`+code+`"}`)
	var m tokenMessage
	_ = json.Unmarshal(w.Body.Bytes(), &m)
	return w.Code, m.Token
}

// A code is exchanged for the token once, and only the token lets a client in. Nothing is stored in a cookie.
func TestAccess(t *testing.T) {
	p := page(t)
	code, second := codeOf(t, p), codeOf(t, p)
	status, token := exchange(p, code)
	if status != http.StatusOK || token == "" || token == code {
		t.Fatalf("%d %q", status, token)
	}
	if status, again := exchange(p, code); status != http.StatusForbidden || again != "" {
		t.Errorf("a code that was used: %d %q", status, again)
	}
	if status, same := exchange(p, second); status != http.StatusOK || same != token {
		t.Errorf("a second code: %d", status)
	}
	for _, wrong := range []string{"", "x", token, code[1:]} {
		if status, got := exchange(p, wrong); status != http.StatusForbidden || got != "" {
			t.Errorf("code %q: %d", wrong, status)
		}
	}
	if w := do(p, "POST", "/session", "no JSON"); w.Code != http.StatusBadRequest {
		t.Errorf("no JSON: %d", w.Code)
	}
	if w := do(p, "POST", "/session", `{"code":"`+strings.Repeat("x", maxCodeMessage)+`"}`); w.Code != http.StatusBadRequest {
		t.Errorf("a large message: %d", w.Code)
	}
	other := page(t)
	for _, path := range []string{"GET /session", "POST /code", "GET /artifact/t/" + digestOf("x")} {
		method, path, _ := strings.Cut(path, " ")
		for _, header := range []string{"", "Bearer", "Bearer ", "Bearer " + code, "Bearer " + other.access.token, "Basic " + token, token} {
			w := do(p, method, path, "", "Authorization", header, "Cookie", "token="+token)
			if w.Code != http.StatusUnauthorized {
				t.Errorf("%s %s with %q: %d", method, path, header, w.Code)
			}
		}
	}
	w := do(p, "POST", "/code", "", "Authorization", "Bearer "+token)
	var m codeMessage
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v", w.Code, err)
	}
	if status, got := exchange(p, m.Code); status != http.StatusOK || got != token {
		t.Errorf("a code that the page made: %d", status)
	}
	if w := do(p, "GET", "/session", "", "Authorization", "Bearer "+token); w.Code != http.StatusNoContent || len(w.Header()["Set-Cookie"]) > 0 {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// The number of codes is bounded: the newest ones are valid.
func TestCodesAreBounded(t *testing.T) {
	p := page(t)
	first := codeOf(t, p)
	var last string
	for range maxCodes {
		last = codeOf(t, p)
	}
	if status, _ := exchange(p, first); status != http.StatusForbidden {
		t.Errorf("the oldest code: %d", status)
	}
	if status, _ := exchange(p, last); status != http.StatusOK {
		t.Errorf("the newest code: %d", status)
	}
}

// A websocket carries the token beside the subprotocol.
func TestAuthorize(t *testing.T) {
	p := page(t)
	for offered, want := range map[string]bool{
		"gantry, token." + p.access.token:       true,
		"token." + p.access.token + ",gantry":   true,
		"gantry":                                false,
		"gantry, token.":                        false,
		"gantry, token.x":                       false,
		"gantry, " + p.access.token:             false,
		"token." + p.access.token:               false,
		"":                                      false,
		"gantry, token." + page(t).access.token: false,
	} {
		r := httptest.NewRequest("GET", "/rpc", nil)
		r.Header.Set("Sec-Websocket-Protocol", offered)
		if got, err := p.Authorize(r); (err == nil) != want || want && got != "gantry" {
			t.Errorf("%q: %q, %v", offered, got, err)
		}
	}
}

// Every response says what the page may do, and none lets it run what is not its own.
func TestHeaders(t *testing.T) {
	p := page(t)
	for _, path := range []string{"GET /", "GET /nothing", "POST /", "POST /session", "GET /session"} {
		method, path, _ := strings.Cut(path, " ")
		h := do(p, method, path, "{}").Header()
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "require-trusted-types-for 'script'", "trusted-types 'none'", "frame-ancestors 'none'", "connect-src 'self' ws://127.0.0.1:1;"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s %s: %q lacks %q", method, path, csp, want)
			}
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s %s: %s: %q", method, path, name, got)
			}
		}
		if len(h.Values("Access-Control-Allow-Origin"))+len(h.Values("Set-Cookie")) > 0 {
			t.Errorf("%s %s: %v", method, path, h)
		}
	}
}

// maxPage is how large the page may be, compressed.
const maxPage = 150 << 10

// The files of the page refer to each other by names that change with their content, and are small.
func TestAssets(t *testing.T) {
	p := page(t)
	total := 0
	for name, content := range p.assets {
		total += len(content)
		w := do(p, "GET", "/"+name, "", "Accept-Encoding", "br, gzip")
		if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "gzip" || w.Body.Len() != len(content) || w.Header().Get("Content-Type") == "" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		if strings.HasPrefix(name, "main-") != strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: Cache-Control %q", name, w.Header().Get("Cache-Control"))
		}
		plain := do(p, "GET", "/"+name, "")
		if want, err := decompress(content); err != nil || !bytes.Equal(plain.Body.Bytes(), want) || plain.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s without compression: %d bytes, %v", name, plain.Body.Len(), err)
		}
		if head := do(p, "HEAD", "/"+name, ""); head.Body.Len() != 0 || head.Code != http.StatusOK {
			t.Errorf("HEAD %s: %d", name, head.Code)
		}
	}
	if total > maxPage {
		t.Errorf("the page has %d bytes, more than %d", total, maxPage)
	}
	html := do(p, "GET", "/", "").Body.String()
	refs := regexp.MustCompile(`(?:src|href)="/([^"]+)"`).FindAllStringSubmatch(html, -1)
	if len(refs) != 2 || strings.Contains(html, "<script>") {
		t.Errorf("%s", html)
	}
	for _, ref := range refs {
		if p.assets[ref[1]] == nil {
			t.Errorf("%s is missing", ref[1])
		}
	}
	for _, path := range []string{"/../web.go", "/dist/index.html", "/index.html.gz", "/main.js", "/sources.sum"} {
		if w := do(p, "GET", path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// Artifacts are downloads, whatever they contain.
func TestArtifacts(t *testing.T) {
	html, svg, png, script := "<html><script>alert(1)</script>", `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`, "\x89PNG\r\n\x1a\n"+strings.Repeat("x", 2*sniffed), "alert(1)"
	p := page(t, html, svg, png, script, "")
	for content, kind := range map[string]string{html: "application/octet-stream", svg: "application/octet-stream", png: "image/png", script: "application/octet-stream", "": "application/octet-stream"} {
		w := do(p, "GET", "/artifact/t/"+digestOf(content), "", "Authorization", "Bearer "+p.access.token)
		h := w.Header()
		if w.Code != http.StatusOK || w.Body.String() != content || h.Get("Content-Type") != kind || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") ||
			h.Get("Content-Security-Policy") != "sandbox; default-src 'none'" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%.20q: %d %v", content, w.Code, h)
		}
	}
	for _, path := range []string{"/artifact/t/" + digestOf("?"), "/artifact/other/" + digestOf(html), "/artifact/t/x", "/artifact/t/../" + digestOf(html), "/artifact/"} {
		if w := do(p, "GET", path, "", "Authorization", "Bearer "+p.access.token); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// The embedded files were built from the sources as they are.
func TestBuiltFromTheSources(t *testing.T) {
	const root = "../../.."
	sums, err := os.ReadFile("dist/sources.sum")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(sums)) {
		want, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		known[path] = true
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
		} else if digestOf(string(b)) != want {
			t.Errorf("%s has changed since the page was built; run make generate", path)
		}
	}
	err = filepath.WalkDir(filepath.Join(root, "web/src"), func(path string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, path); err == nil && !d.IsDir() && !known[filepath.ToSlash(rel)] {
			t.Errorf("%s is new since the page was built; run make generate", rel)
		}
		return err
	})
	if err != nil || len(known) < 5 {
		t.Errorf("%d sources, %v", len(known), err)
	}
}
