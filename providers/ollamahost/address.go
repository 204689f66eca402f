package ollamahost

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// DefaultAddress is the server's default address.
const DefaultAddress = "http://localhost:" + defaultPort

const defaultPort = "11434"

// Address returns the server's address from the environment: CODEX_OSS_BASE_URL and CODEX_OSS_PORT, which users of codex may have
// set, then OLLAMA_HOST, the server's own variable, then [DefaultAddress]. lookup is usually os.Getenv.
func Address(lookup func(string) string) (string, error) {
	if base := strings.TrimSpace(lookup("CODEX_OSS_BASE_URL")); base != "" {
		return normalised(base)
	}
	if port := strings.TrimSpace(lookup("CODEX_OSS_PORT")); port != "" {
		return normalised("localhost:" + port)
	}
	if host := strings.TrimSpace(lookup("OLLAMA_HOST")); host != "" {
		return normalised(host)
	}
	return DefaultAddress, nil
}

// normalised converts an address to a URL without a trailing slash. As in the server's own variable, the scheme, host or port may
// be missing, and the host may be the address for all interfaces, which is replaced by localhost.
func normalised(address string) (string, error) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(address), "://")
	if !ok {
		scheme, rest = "http", scheme
	}
	if strings.HasPrefix(rest, ":") {
		rest = "localhost" + rest
	}
	u, err := url.Parse(scheme + "://" + rest)
	switch {
	case strings.Contains(rest, "@"):
		return "", badAddress("", "it contains a password; set a key in the provider's block instead")
	case err != nil || u.Hostname() == "":
		return "", badAddress(address, "it has no valid host and port")
	case scheme != "http" && scheme != "https":
		return "", badAddress(address, "its scheme is neither http nor https")
	case u.RawQuery != "" || u.Fragment != "":
		return "", badAddress(address, "it has a query")
	}
	host, port := u.Hostname(), u.Port()
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "" && !ok { // with a scheme, its own default port applies
		port = defaultPort
	}
	if u.Host = host; port != "" {
		u.Host += ":" + port
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func badAddress(address, why string) error {
	message := "the address of the Ollama server can't be used: " + why
	if address != "" {
		message = fmt.Sprintf("the address %q of the Ollama server can't be used: %s", address, why)
	}
	return &llm.Error{Code: llm.ErrInvalidRequest, Message: message, Next: "write it like " + DefaultAddress}
}
