// Package storage is what sites keep in a browser: cookies and local storage, of all origins. It can be taken out of one browser and put into
// another, merged, limited to some sites, and sealed.
//
// It owns: the format, which is that of common tools, and how each part is read and written. It must not know: where states are kept, or which
// sites may have one.
//
// Start with [State] and [Origins].
package storage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

const (
	// maxBytes is the maximum size of a state.
	maxBytes = 64 << 20
	// maxOrigins is the maximum number of origins with local storage.
	maxOrigins = 500
	// maxCookies is the maximum number of cookies.
	maxCookies = 10_000
)

// State is what sites keep.
type State struct {
	Cookies []Cookie `json:"cookies"`
	Origins []Origin `json:"origins"`
}

// Cookie is a cookie. Expires is in seconds since 1970; 0 or less: it ends with the browser.
type Cookie struct {
	Name     string  `json:"name"`
	Value    string  `json:"value"`
	Domain   string  `json:"domain"`
	Path     string  `json:"path"`
	Expires  float64 `json:"expires"`
	HTTPOnly bool    `json:"httpOnly"`
	Secure   bool    `json:"secure"`
	SameSite string  `json:"sameSite,omitempty"`
}

// Origin is the local storage of an origin.
type Origin struct {
	Origin       string `json:"origin"`
	LocalStorage []Item `json:"localStorage"`
}

// Item is an item of a storage.
type Item struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Parse reads a state, and leaves out what is not valid.
func Parse(b []byte) (State, error) {
	var s State
	if len(b) > maxBytes {
		return s, fmt.Errorf("the storage state is larger than %d MB", maxBytes>>20)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&s); err != nil {
		return State{}, fmt.Errorf("the storage state is not valid: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return State{}, errors.New("the storage state is not valid: something follows it")
	}
	return s.clean(), nil
}

// clean leaves out what no browser would take, and sorts.
func (s State) clean() State {
	var out State
	for _, c := range s.Cookies {
		if c.Domain = strings.ToLower(c.Domain); c.Path == "" {
			c.Path = "/"
		}
		if c.Expires < 0 {
			c.Expires = 0
		}
		if !slices.Contains([]string{"", "Strict", "Lax", "None"}, c.SameSite) {
			c.SameSite = ""
		}
		if host(c.Domain) != "" && c.Path[0] == '/' && !strings.ContainsAny(c.Name+c.Value, ";\r\n\x00") && c.Name+c.Value != "" {
			out.Cookies = append(out.Cookies, c)
		}
	}
	for _, o := range s.Origins {
		if o.Origin = canonical(o.Origin); o.Origin != "" && len(o.LocalStorage) > 0 {
			out.Origins = append(out.Origins, o)
		}
	}
	return Merge(State{}, out)
}

// host returns the host of the domain of a cookie; "": it is none.
func host(domain string) string {
	h := strings.TrimPrefix(domain, ".")
	if h == "" || strings.ContainsAny(h, "/ @;?#\\\r\n\x00") {
		return ""
	}
	return h
}

// canonical returns an origin as browsers write it; "": it is none that has a storage.
func canonical(origin string) string {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(u.Host, "\\ \"<>*") {
		return ""
	}
	h := strings.ToLower(u.Host)
	if p := u.Port(); p == "" || p == "443" && u.Scheme == "https" || p == "80" && u.Scheme == "http" {
		h = strings.TrimSuffix(strings.TrimSuffix(h, p), ":")
	}
	return u.Scheme + "://" + h
}

func (c Cookie) key() string { return c.Name + "\x00" + c.Domain + "\x00" + c.Path }

// Merge returns old with what newer says: cookies by name, domain and path, local storage by origin.
func Merge(old, newer State) State {
	cookies, origins := map[string]Cookie{}, map[string]Origin{}
	for _, s := range []State{old, newer} {
		for _, c := range s.Cookies {
			cookies[c.key()] = c
		}
		for _, o := range s.Origins {
			origins[o.Origin] = o
		}
	}
	out := State{Cookies: []Cookie{}, Origins: []Origin{}}
	for _, c := range cookies {
		out.Cookies = append(out.Cookies, c)
	}
	for _, o := range origins {
		out.Origins = append(out.Origins, o)
	}
	slices.SortFunc(out.Cookies, func(a, b Cookie) int { return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.key(), b.key())) })
	slices.SortFunc(out.Origins, func(a, b Origin) int { return cmp.Compare(a.Origin, b.Origin) })
	out.Cookies, out.Origins = out.Cookies[:min(len(out.Cookies), maxCookies)], out.Origins[:min(len(out.Origins), maxOrigins)]
	return out
}

// Only returns what belongs to hosts for which is returns true.
func (s State) Only(is func(host string) bool) State {
	out := State{Cookies: []Cookie{}, Origins: []Origin{}}
	for _, c := range s.Cookies {
		if is(host(c.Domain)) {
			out.Cookies = append(out.Cookies, c)
		}
	}
	for _, o := range s.Origins {
		if u, err := url.Parse(o.Origin); err == nil && is(u.Hostname()) {
			out.Origins = append(out.Origins, o)
		}
	}
	return out
}
