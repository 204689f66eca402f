package attacks_test

// browsers are the rows about pages, and about a browser that one of them has taken over.
var browsers = []row{
	{id: "L1", attempt: "a page, or the model, opens `file:`: by an address, view-source, a redirect, a script, a frame, a popup", required: "refused", ours: "refused by the plugin; a browser without the plugin's rules sees no file of the user's",
		tests: []string{"e2e TestBrowserOpensNoFile", "host/internal/launch/box TestNarrowBrowser"}},
	{id: "L2", attempt: "it opens the browser's own pages: `chrome:`, `devtools:`", required: "refused", ours: "refused", tests: []string{"e2e TestBrowserOpensNoFile"}},
	{id: "L3", attempt: "a process in the browser's sandbox reads the workspace, and what is beside its folder", required: "not there", ours: "not there, in every mode",
		tests: []string{"e2e TestNarrowProcess", "host/internal/launch/box TestNarrow"}},
	{id: "L4", attempt: "it replaces its folder, or what leads to it, with a link to the user's files", required: "not shown", ours: "the next one does not start", tests: []string{"host/internal/launch/box TestNarrowFolderBehindALink"}},
	{id: "L5", attempt: "a page reaches this machine without a rule: by fetch, image, frame, redirect, web socket, service worker", required: "refused", ours: "403", tests: []string{"e2e TestBrowserReachesNoLocalHost"}},
	{id: "L6", attempt: "the same in other spellings: short, hexadecimal, octal, IPv6, `localhost`, 0.0.0.0", required: "refused", ours: "403", tests: []string{"e2e TestBrowserReachesNoLocalHost"}},
	{id: "L7", attempt: "a page reaches the metadata service of a cloud", required: "refused", ours: "403", tests: []string{"e2e TestBrowserReachesNoLocalHost"}},
	{id: "L8", attempt: "a page leads the browser to a site that nobody has allowed", required: "asked about", ours: "asked about, and not loaded after a no", tests: []string{"e2e TestBrowserAsksForASite"}},
}
