package network

import "strings"

// Names of variables by which programs find a proxy. Matches codex 0.169.
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

// Variables are what tells programs in a box of the proxy that listens there at an address: K=V. No host is excepted: in a
// network of its own a process finds nothing on loopback but what it started itself.
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

// Without leaves out the variables by which programs find a proxy: those of the host lead where a box does not.
func Without(env []string) []string {
	var own []string
	for _, kv := range Variables("") {
		name, _, _ := strings.Cut(kv, "=")
		own = append(own, name)
	}
	out := make([]string, 0, len(env))
next:
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		for _, o := range own {
			if strings.EqualFold(name, o) {
				continue next
			}
		}
		out = append(out, kv)
	}
	return out
}
