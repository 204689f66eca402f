package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// pictures are the types of artifacts that the page shows. All others are bytes.
func pictures() []string { return []string{"image/png", "image/jpeg", "image/gif", "image/webp"} }

// sniffed is how much of an artifact is read to determine its type, as [http.DetectContentType] does.
const sniffed = 512

// artifact serves stored content, which came from a model, a tool or a web page: never as something that a browser would run.
func (p *Page) artifact(w http.ResponseWriter, r *http.Request) {
	if !p.authorized(w, r) {
		return
	}
	thread, digest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, pathArtifact), "/")
	if !ok || !isDigest(digest) {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	content, err := p.cfg.Artifact(r.Context(), thread, digest)
	if err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, ErrNoArtifact) {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return
	}
	defer content.Close()
	head := make([]byte, sniffed)
	n, err := io.ReadFull(content, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	head = head[:n]
	kind := http.DetectContentType(head)
	if !slices.Contains(pictures(), kind) {
		kind = "application/octet-stream"
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", digest[:16]))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(head); err == nil {
		_, _ = io.Copy(w, content) // the browser may have left
	}
}

// isDigest reports whether s is a SHA-256 in hexadecimal digits.
func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
