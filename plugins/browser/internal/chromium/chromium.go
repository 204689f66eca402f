// Package chromium finds a browser and says how it is started.
//
// It owns: which program is the browser, and its arguments. It must not know: the protocol, or who starts the process.
//
// Start with [Find] and [Options.Argv].
package chromium

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// names are the programs that are browsers, the preferred ones first: the headless shell is the smallest.
var names = []string{"chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"}

// ErrNone is the error of Find if there is no browser.
var ErrNone = errors.New("there is no Chromium on this machine; install chromium-headless-shell or chromium, or set `chromium` in the plugin's block to the path of a browser")

// Find returns the path of the browser: configured, unless it is empty.
func Find(configured string) (string, error) {
	if configured != "" {
		path, err := exec.LookPath(configured)
		if err != nil {
			return "", fmt.Errorf("the browser %q can't be run (%w); correct `chromium` in the plugin's block, or leave it out", configured, err)
		}
		return path, nil
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNone
}

// preferences of a new profile: a PDF file is downloaded rather than shown, because nothing can be read of the browser's viewer.
const preferences = `{"plugins":{"always_open_pdf_externally":true},"download":{"prompt_for_download":false}}`

// Prepare makes an empty folder a profile with what can't be said on a command line.
func Prepare(profile string) error {
	dir := filepath.Join(profile, "Default")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "Preferences"), []byte(preferences), 0o600)
}

// Options are how a browser starts.
type Options struct {
	Executable string
	Profile    string // folder; empty: one that ends with the browser
	Width      int    // of the window, in pixels; 0: 1280
	Height     int    // 0: 800
	NoSandbox  bool   // start without Chromium's own sandbox
	Proxy      string // host and port of an HTTP proxy for all hosts, also this machine; empty: that of the environment
}

// Argv returns the program and its arguments. The browser is controlled over the descriptors 3 and 4.
func (o Options) Argv() []string {
	width, height := o.Width, o.Height
	if width <= 0 || height <= 0 {
		width, height = 1280, 800
	}
	argv := []string{
		o.Executable, "--headless", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-breakpad",
		"--disable-client-side-phishing-detection", "--disable-domain-reliability", "--disable-search-engine-choice-screen",
		"--disable-field-trial-config", "--metrics-recording-only", "--no-service-autorun", "--password-store=basic", "--use-mock-keychain",
		"--disable-hang-monitor", "--disable-prompt-on-repost", "--disable-popup-blocking",
		// Tabs in the background are used as well.
		"--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
		// The headless shell does not isolate sites otherwise.
		"--site-per-process", "--disable-features=Translate,OptimizationHints,MediaRouter,HttpsUpgrades,PaintHolding,Prerender2",
		// No UDP that passes by a proxy.
		"--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--disable-quic",
		fmt.Sprintf("--window-size=%d,%d", width, height), "--hide-scrollbars", "--mute-audio",
	}
	if o.NoSandbox {
		argv = append(argv, "--no-sandbox")
	}
	if o.Profile != "" {
		argv = append(argv, "--user-data-dir="+o.Profile)
	}
	if o.Proxy != "" {
		argv = append(argv, "--proxy-server=http://"+o.Proxy, "--proxy-bypass-list=<-loopback>")
	}
	return append(argv, "about:blank")
}
