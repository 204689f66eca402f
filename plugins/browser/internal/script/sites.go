package script

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// site returns what shares cookies with a host: its registrable domain, or the host if it has none. "": the address has no host.
func site(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return siteOf(u.Hostname())
}

func siteOf(host string) string {
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "."), "."))
	if net.ParseIP(host) != nil {
		return host
	}
	if s, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return s
	}
	return host
}

// open returns the sites of the tabs. A browser can have the logins of many more, of which a script for one site learns nothing.
func open(b *target.Browser) []string {
	var out []string
	for _, t := range b.Tabs() {
		if s := site(t.Info().URL); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// everywhere are commands that return the cookies of all sites, of which a script gets those of the open ones.
var everywhere = []string{"Storage.getCookies", "Network.getAllCookies"}

// stores are the domains whose commands can name the site that they read.
const stores = " CacheStorage DOMStorage IndexedDB Network Page Storage "

// closedSite returns an error if a command reads or changes what a site has stored that is open in no tab.
func closedSite(method string, params map[string]json.RawMessage, sites []string) error {
	domain, _, _ := strings.Cut(method, ".")
	if !strings.Contains(stores, " "+domain+" ") || method == "Page.navigate" {
		return nil
	}
	for _, address := range named(params) {
		if s := site(address); s == "" || !slices.Contains(sites, s) {
			return fmt.Errorf("%s is refused for %q: no tab has its site open; scripts reach only what the sites of the tabs have stored", method, address)
		}
	}
	return nil
}

// named returns the addresses of which the parameters of a command name what is stored.
func named(params map[string]json.RawMessage) []string {
	var out []string
	for name, v := range params {
		switch name {
		case "securityOrigin", "origin", "ownerOrigin", "url":
			if s := text(v); s != "" {
				out = append(out, s)
			}
		case "storageKey": // the site, and perhaps around which it is: https://a.example/^0https://b.example
			if s, _, _ := strings.Cut(text(v), "^"); s != "" {
				out = append(out, s)
			}
		case "cacheId": // the storage key, the bucket and the name
			s, _, _ := strings.Cut(text(v), "|")
			s, _, _ = strings.Cut(s, "^")
			out = append(out, s)
		case "urls":
			var list []string
			_ = json.Unmarshal(v, &list) // the browser refuses what is no list
			out = append(out, list...)
		case "storageId", "storageBucket", "bucket":
			var inner map[string]json.RawMessage
			if json.Unmarshal(v, &inner) == nil {
				out = append(out, named(inner)...)
			}
		case "cookies":
			var list []map[string]json.RawMessage
			_ = json.Unmarshal(v, &list) // likewise
			for _, c := range list {
				out = append(out, named(c)...)
			}
		case "domain":
			if s := text(v); s != "" {
				out = append(out, "http://"+strings.TrimPrefix(s, "."))
			}
		}
	}
	return out
}

// ofSites returns the result of one of the commands of [everywhere] with the cookies of some sites only.
func ofSites(result json.RawMessage, sites []string) (json.RawMessage, error) {
	var all struct {
		Cookies []json.RawMessage `json:"cookies"`
	}
	if err := json.Unmarshal(result, &all); err != nil {
		return nil, err
	}
	all.Cookies = slices.DeleteFunc(all.Cookies, func(c json.RawMessage) bool {
		var x struct{ Domain string }
		return json.Unmarshal(c, &x) != nil || !slices.Contains(sites, siteOf(x.Domain))
	})
	if all.Cookies == nil {
		all.Cookies = []json.RawMessage{}
	}
	return json.Marshal(all)
}
