package script

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
	"github.com/gantry-agent/gantry/plugins/browser/internal/spec"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// domains are those whose commands stay within the pages of the session. All others are refused.
const domains = ` Accessibility Animation Audits Browser CSS CacheStorage Console DOM DOMDebugger DOMSnapshot DOMStorage Emulation HeapProfiler IO IndexedDB
 Input LayerTree Log Media Network Overlay Page Performance PerformanceTimeline Profiler Runtime Schema Storage Target WebAudio WebAuthn `

// refused returns why a script must not send a command of one of the domains; empty: it may.
func refused(method string) string {
	const (
		ours  = "gantry follows or confines the page by it"
		files = "it reaches files; use browser_act"
		wide  = "it reaches past the session"
	)
	switch method {
	case "Page.disable", "Network.disable", "Runtime.disable", "Page.waitForDebugger", "Page.startScreencast", "Page.stopScreencast", "Page.screencastFrameAck",
		"Runtime.runIfWaitingForDebugger", "Network.setRequestInterception", "Network.continueInterceptedRequest",
		"Network.getResponseBodyForInterception", "Network.takeResponseBodyForInterceptionAsStream", "Target.setAutoAttach", "Target.setDiscoverTargets":
		return ours
	case "Page.setDownloadBehavior", "Page.setInterceptFileChooserDialog", "DOM.setFileInputFiles", "DOM.getFileInfo":
		return files
	case "Network.loadNetworkResource", "Target.attachToBrowserTarget", "Target.autoAttachRelated", "Target.detachFromTarget", "Target.exposeDevToolsProtocol",
		"Target.openDevTools", "Target.sendMessageToTarget", "Target.setRemoteLocations":
		return wide
	case "Target.attachToTarget":
		return "use cdp.attachToTarget(targetId)"
	case "Page.close":
		return "use cdp.send(\"Target.closeTarget\", {targetId})"
	case "Browser.getVersion", "Browser.getWindowForTarget", "Browser.getWindowBounds":
		return ""
	}
	if strings.HasPrefix(method, "Browser.") {
		return wide
	}
	return ""
}

// check returns an error for a command that a script must not send. streams and contexts are those that the script has got itself.
func check(s *spec.Spec, method string, params map[string]json.RawMessage, streams, contexts []string) error {
	domain, _, ok := strings.Cut(method, ".")
	if !ok {
		return fmt.Errorf("%q is not a method: write Domain.command, and use cdp.spec(\"words\") to find it", method)
	}
	switch s.Kind(method) {
	case spec.Event:
		return fmt.Errorf("%s is an event, not a command: events can't be sent or awaited; read the state again until it is as expected, for example with page.wait_for_element or page.js", method)
	case spec.Type:
		return fmt.Errorf("%s is a type, not a command; cdp.spec(%q) describes it", method, method)
	case "":
		return fmt.Errorf("there is no command %s; cdp.spec(%q) lists those of the domain", method, domain)
	}
	if !strings.Contains(domains, " "+domain+" ") {
		return fmt.Errorf("%s is refused: the domain %s reaches past the pages of the session", method, domain)
	}
	if why := refused(method); why != "" {
		return fmt.Errorf("%s is refused: %s", method, why)
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { v, ok := params[n]; return ok && string(v) != "null" })
	}
	switch {
	case method == "Target.createTarget" && has("hidden", "forTab"): // it would not be followed as a tab is
		return fmt.Errorf("%s is refused with hidden or forTab", method)
	case method == "Target.createBrowserContext" && has("proxyServer", "proxyBypassList", "originsWithUniversalNetworkAccess"):
		return fmt.Errorf("%s is refused with another proxy or access to all origins", method)
	case method == "Target.disposeBrowserContext" && !slices.Contains(contexts, text(params["browserContextId"])):
		return fmt.Errorf("%s is refused: the script has not created context %q", method, text(params["browserContextId"]))
	case domain == "IO" && method != "IO.resolveBlob" && !slices.Contains(streams, text(params["handle"])):
		return fmt.Errorf("%s is refused: no command of the script has returned the handle %q", method, text(params["handle"]))
	case method == "Input.dispatchDragEvent":
		var data map[string]json.RawMessage
		if json.Unmarshal(params["data"], &data) == nil && len(data["files"]) > 0 {
			return fmt.Errorf("%s is refused with files; use browser_act", method)
		}
	}
	return nil
}

// clearing are commands that remove what all sites have stored.
var clearing = []string{"Network.clearBrowserCache", "Network.clearBrowserCookies", "Storage.clearCookies"}

// ofUser returns an error for a command that would reach past the tabs that were opened here in a browser that gantry did not start.
func ofUser(b *target.Browser, c command, s *cdp.Session) error {
	if !b.Attached() || s.ID() != "" && !slices.Contains(clearing, c.method) {
		return nil
	}
	if t, _ := b.Find(text(c.params["targetId"])); t != nil && (c.method == "Target.closeTarget" || c.method == "Target.getTargetInfo") {
		return nil
	}
	return fmt.Errorf("%s is refused: gantry did not start this browser, and scripts reach only the tabs that were opened here; page.goto_url opens one", c.method)
}

// text returns the value of a string; empty: it is none.
func text(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}
