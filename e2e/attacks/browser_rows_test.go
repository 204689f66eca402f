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
	{id: "L9", attempt: "a server names a download `../../x`, with backslashes, absolutely, as a hidden file, or like one that exists or is a link", required: "in its folder, over nothing",
		ours: "a free name in the folder", tests: []string{"e2e TestBrowserDownloadsStayInTheirFolder", "plugins/browser/internal/files FuzzName"}},
	{id: "L10", attempt: "the folder for downloads, or one above it in the workspace, is a link out of it", required: "nothing written there", ours: "kept as an artifact, in every mode",
		tests: []string{"e2e TestBrowserDownloadsFollowNoLink", "plugins/browser/internal/userfiles TestSaveBehindALink"}},
	{id: "L11", attempt: "a browser that is lost puts a link, a pipe or a folder where a download should be, or replaces the folder", required: "nothing else read", ours: "only a plain file of the browser's folder is read",
		tests: []string{"plugins/browser/internal/files TestOpenedDownload"}},
	{id: "L12", attempt: "upload what `deny_read` names: by its path, a link, a linked folder; or a device, or `/proc`", required: "denied", ours: "denied by the sandbox; links are refused", tests: []string{"e2e TestBrowserUploadsNothingDenied", "plugins/browser/internal/userfiles TestRead"}},
	{id: "L13", attempt: "a page starts downloads without end, or one without end", required: "bounded", ours: "20 at a time, 512 MB each; more are cancelled", tests: []string{"plugins/browser/internal/files TestLimits"}},
	{id: "L14", attempt: "have a secret typed on another site, in another site's frame, or in its own site's frame on another site", required: "not typed", ours: "refused, with the domains", tests: []string{"e2e TestBrowserSecretsStayOnTheirSites"}},
	{id: "L15", attempt: "a page goes to another site, or moves the focus, when the field for a secret gets it", required: "not typed elsewhere", ours: "the text is inserted at once, into the very field and document, or not at all", tests: []string{"e2e TestBrowserSecretsStayOnTheirSites"}},
	{id: "L16", attempt: "a placeholder in an address, a search or a script", required: "refused", ours: "refused", tests: []string{"e2e TestBrowserSecretsStayOnTheirSites"}},
	{id: "L17", attempt: "a page shows a typed secret in text, title, address, attributes, a dialog, encoded, or in a picture", required: "not seen by the model", ours: "masked; the screenshot is withheld", tests: []string{"e2e TestBrowserMasksSecrets", "plugins/browser/internal/secret FuzzMasks"}},
	{id: "L18", attempt: "a PDF file that breaks or blocks its reader", required: "the plugin goes on", ours: "read by a process without files and network, with limits", tests: []string{"plugins/browser/internal/userfiles TestPDFText"}},
}
