package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// dist contains the files of the page, which tools/webpage builds from the sources in web/. They are compressed once, there.
//
//go:embed dist/*.gz
var dist embed.FS

// index is the file that the paths of views are answered with.
const index = "index.html"

// assets are compressed files by name.
type assets map[string][]byte

func loadAssets() (assets, error) {
	entries, err := dist.ReadDir("dist")
	if err != nil {
		return nil, err
	}
	a := assets{}
	for _, e := range entries {
		b, err := dist.ReadFile("dist/" + e.Name())
		if err != nil {
			return nil, err
		}
		a[strings.TrimSuffix(e.Name(), ".gz")] = b
	}
	if a[index] == nil {
		return nil, fmt.Errorf("the page is not part of this program: %s is missing", index)
	}
	return a, nil
}

// serve serves a file.
func (a assets) serve(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = index
	}
	content, ok := a[name]
	if !ok {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType(name))
	h.Set("Vary", "Accept-Encoding")
	if immutable(name) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
	} else {
		plain, err := decompress(content)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		content = plain
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(content) // the browser may have left
	}
}

func decompress(b []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// contentType returns the type of a file of the page. The system's own table of types may say something else.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// hashSize is the length of the digest in the name of a file, as in main-CVPTK3WD.js.
const hashSize = 8

// immutable reports whether the name of a file changes with its content.
func immutable(name string) bool {
	_, hash, ok := strings.Cut(strings.TrimSuffix(name, path.Ext(name)), "-")
	return ok && len(hash) == hashSize
}
