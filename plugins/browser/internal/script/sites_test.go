//go:build unix

package script

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/storage"
)

// What sites have stored that are open in no tab is out of a script's reach, whichever way a command names them.
func TestClosedSites(t *testing.T) {
	t.Parallel()
	sites := []string{"example.com", "127.0.0.1"}
	for _, row := range []struct {
		method, params string
		refused        bool
	}{
		{"Network.getCookies", `{}`, false},
		{"Network.getCookies", `{"urls":["https://www.example.com/a","http://127.0.0.1:8080/"]}`, false},
		{"Network.getCookies", `{"urls":["https://example.com/","https://bank.example/"]}`, true},
		{"Network.getCookies", `{"urls":["nonsense"]}`, true},
		{"Network.setCookie", `{"name":"a","value":"b","domain":".bank.example"}`, true},
		{"Network.setCookie", `{"name":"a","value":"b","url":"https://example.com"}`, false},
		{"Storage.setCookies", `{"cookies":[{"name":"a","value":"b","domain":"example.com"},{"name":"a","value":"b","url":"http://bank.example"}]}`, true},
		{"DOMStorage.getDOMStorageItems", `{"storageId":{"securityOrigin":"https://bank.example","isLocalStorage":true}}`, true},
		{"DOMStorage.getDOMStorageItems", `{"storageId":{"storageKey":"https://example.com/","isLocalStorage":true}}`, false},
		{"IndexedDB.requestData", `{"storageKey":"https://bank.example/^0https://example.com"}`, true},
		{"IndexedDB.requestDatabaseNames", `{"storageBucket":{"storageKey":"https://bank.example/"}}`, true},
		{"CacheStorage.requestEntries", `{"cacheId":"https://bank.example/|1|a"}`, true},
		{"CacheStorage.requestEntries", `{"cacheId":"opaque"}`, true},
		{"CacheStorage.requestEntries", `{"cacheId":"https://example.com/|1|a"}`, false},
		{"Storage.getUsageAndQuota", `{"origin":"https://bank.example"}`, true},
		{"Page.navigate", `{"url":"https://bank.example"}`, false}, // is judged as an address
		{"Runtime.evaluate", `{"url":"https://bank.example"}`, false},
	} {
		var params map[string]json.RawMessage
		if err := json.Unmarshal([]byte(row.params), &params); err != nil {
			t.Fatal(err)
		}
		if err := closedSite(row.method, params, sites); (err != nil) != row.refused {
			t.Errorf("%s %s: %v", row.method, row.params, err)
		}
	}
	got, err := ofSites(json.RawMessage(`{"cookies":[{"name":"a","domain":".www.example.com"},{"name":"b","domain":"bank.example"},{"name":"c","domain":"127.0.0.1"},{"name":"d","domain":"com"}]}`), sites)
	if want := `{"cookies":[{"name":"a","domain":".www.example.com"},{"name":"c","domain":"127.0.0.1"}]}`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := ofSites(json.RawMessage(`{"cookies":[]}`), nil); err != nil || string(got) != `{"cookies":[]}` {
		t.Errorf("%s, %v", got, err)
	}
}

// A script gets the cookies of the sites that are open, by every command, although the browser has those of others.
func TestCookiesOfOtherSites(t *testing.T) {
	g := newRig(t, "<p>x")
	other := strings.Replace(g.url, "127.0.0.1", "localhost", 1)
	// As from a profile whose sites are not open.
	if _, err := protocol.Call(t.Context(), g.one.browser.Root(), storage.SetCookies, storage.SetCookiesParams{Cookies: []*network.CookieParam{{Name: "theirs", Value: "1", URL: other}}}); err != nil {
		t.Fatal(err)
	}
	report := g.run(fmt.Sprintf(`
		const url = %q, other = %q;
		await page.goto_url(url);
		await page.js("document.cookie = 'ours=1'");
		const [tab] = await page.list_tabs();
		const sessionId = await cdp.attachToTarget(tab.target_id);
		const out = [];
		const names = r => r.cookies.map(c => c.name).join();
		out.push(names(await cdp.send("Storage.getCookies")));
		out.push(names(await cdp.send("Network.getAllCookies", {}, {sessionId})));
		out.push(names(await cdp.send("Network.getCookies", {urls: [url]}, {sessionId})));
		for (const [m, p] of [["Network.getCookies", {urls: [other]}], ["DOMStorage.getDOMStorageItems", {storageId: {securityOrigin: other, isLocalStorage: true}}]])
			try { await cdp.send(m, p, {sessionId}); out.push("given") } catch (e) { out.push(/no tab has its site open/.test(e.message) ? "refused" : e.message) }
		return out.join(" ");`, g.url, other))
	if string(report.Data) != `"ours ours ours refused refused"` {
		t.Errorf("%s %+v", report.Data, report)
	}
}
