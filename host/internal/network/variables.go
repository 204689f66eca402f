package network

import (
	"slices"
	"strings"
)

// Names of variables in which programs look for a proxy. Matches codex 0.169.
var (
	toHTTP = []string{
		"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
		"npm_config_http_proxy", "npm_config_https_proxy", "npm_config_proxy", "NPM_CONFIG_HTTP_PROXY", "NPM_CONFIG_HTTPS_PROXY",
		"NPM_CONFIG_PROXY", "BUNDLE_HTTP_PROXY", "BUNDLE_HTTPS_PROXY", "PIP_PROXY", "DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY",
		"WS_PROXY", "WSS_PROXY", "ws_proxy", "wss_proxy",
	}
	toSOCKS = []string{"ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy"}
	toNone  = []string{"NO_PROXY", "no_proxy", "npm_config_noproxy", "NPM_CONFIG_NOPROXY", "YARN_NO_PROXY", "BUNDLE_NO_PROXY"}
)

// Variables returns the variables, K=V, with which programs in a sandbox use the proxy at an address. No host is excepted: in its own
// network namespace, a process finds nothing on loopback but what it has started itself.
func Variables(address string) []string {
	var out []string
	for _, name := range toHTTP {
		out = append(out, name+"=http://"+address)
	}
	for _, name := range toSOCKS {
		out = append(out, name+"=socks5h://"+address)
	}
	for _, name := range toNone {
		out = append(out, name+"=")
	}
	return append(out, "NODE_USE_ENV_PROXY=1", "ELECTRON_GET_USE_PROXY=true", "GANTRY_NETWORK_PROXY_ACTIVE=1")
}

// WithoutProxy removes the variables in which programs look for a proxy. The host's own proxy can't be reached from a sandbox.
func WithoutProxy(env []string) []string {
	names := map[string]bool{}
	for _, kv := range Variables("") {
		name, _, _ := strings.Cut(kv, "=")
		names[strings.ToUpper(name)] = true
	}
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return names[strings.ToUpper(name)]
	})
}
