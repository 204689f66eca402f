package attacks_test

// pages are the rows about where pages lead the browser, and what leaves it.
var pages = []row{
	{id: "U1", attempt: "a page sends UDP past the proxy: WebRTC to STUN and TURN servers on this machine and in its network", required: "nothing leaves", ours: "nothing leaves", tests: []string{"e2e TestBrowserSendsNoDatagrams"}},
	{id: "U2", attempt: "it names such an address as its peer", required: "nothing leaves", ours: "nothing leaves", tests: []string{"e2e TestBrowserSendsNoDatagrams"}},
	{id: "U3", attempt: "it uses WebTransport, or an answer offers HTTP/3", required: "nothing leaves", ours: "nothing leaves", tests: []string{"e2e TestBrowserSendsNoDatagrams"}},
	{id: "U4", attempt: "it relays by TURN over TCP through a local host", required: "no connection", ours: "no connection", tests: []string{"e2e TestBrowserSendsNoDatagrams"}},
	{id: "U5", attempt: "a worker of a page reaches this machine without a rule: dedicated, nested, shared, by imported scripts, by its web socket", required: "refused", ours: "403", tests: []string{"e2e TestBrowserReachesNoLocalHost"}},
	{id: "U6", attempt: "it does so by elements: scripts, styles, fonts, videos, modules, preloading", required: "refused", ours: "403", tests: []string{"e2e TestBrowserReachesNoLocalHost"}},
	{id: "U7", attempt: "it does so by event streams, XMLHttpRequest, a form, or a frame whose content is its own address (`data:`)", required: "refused", ours: "403", tests: []string{"e2e TestBrowserReachesNoLocalHost"}},
	{id: "U8", attempt: "a document redirects to this machine or the metadata service, also over several steps", required: "refused", ours: "refused, and the model is told", tests: []string{"e2e TestBrowserIsRedirectedNowhere"}},
	{id: "U9", attempt: "it leads there by an element, a script or a popup", required: "refused", ours: "refused, and the model is told", tests: []string{"e2e TestBrowserIsRedirectedNowhere"}},
	{id: "U10", attempt: "a name stands for an address of this machine, or begins to (rebinding)", required: "refused", ours: "the proxy judges the addresses that it connects to", tests: []string{"e2e TestBrowserIsRedirectedNowhere", "host/internal/network TestDecide"}},
	{id: "U11", attempt: "a host that the plugin's block denies is spelled otherwise: short, hexadecimal, octal, with a user, as part of an IPv6 address", required: "refused", ours: "refused",
		tests: []string{"e2e TestBrowserOpensNothingDenied", "plugins/browser/internal/policy TestNotations", "plugins/browser/internal/action TestHostsAreThoseOfTheBrowser"}},
	{id: "U12", attempt: "such a host is opened by a redirect, a script, a popup, a frame, an object, a form", required: "refused", ours: "refused", tests: []string{"e2e TestBrowserOpensNothingDenied"}},
	{id: "U13", attempt: "a page, or a worker of it, opens a web socket to such a host", required: "refused", ours: "the page is left; the network rules hold before that", tests: []string{"e2e TestBrowserOpensNothingDenied", "plugins/browser/internal/target TestForbiddenSockets"}},
	{id: "U14", attempt: "an address looks like an allowed one: as a prefix, as a user's name, by letters of another alphabet, by backslashes", required: "refused", ours: "refused", tests: []string{"plugins/browser/internal/policy TestAddresses"}},
	{id: "U15", attempt: "a page shows what is not allowed as data or as a blob", required: "judged by its opener", ours: "judged by its opener", tests: []string{"plugins/browser/internal/policy TestOpenedByAPage"}},
}
