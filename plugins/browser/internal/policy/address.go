package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// address is an address as a browser understands it.
type address struct{ scheme, host, port string }

// ports are the schemes that can be opened, with their default ports.
var ports = map[string]string{"http": "80", "https": "443"}

// names is how browsers map names of hosts (UTS #46, without its rules for the length and the characters of labels).
var names = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.BidiRule())

// parse parses an address. What browsers would repair, such as control characters and backslashes, is an error.
func parseAddress(text string) (a address, err error) {
	u, err := url.Parse(text)
	if err != nil || strings.ContainsAny(text, "\\\t\r\n") {
		return a, fmt.Errorf("%q is not an address", text)
	}
	a.scheme = strings.ToLower(u.Scheme)
	if ports[a.scheme] == "" {
		return a, fmt.Errorf("addresses of the scheme %q are not allowed; only http and https are", a.scheme)
	}
	if u.Opaque != "" || u.Hostname() == "" {
		return a, fmt.Errorf("%q has no host", text)
	}
	if a.host, err = canonical(u.Hostname()); err != nil {
		return a, fmt.Errorf("%q has an invalid host: %w", text, err)
	}
	if a.port = u.Port(); a.port == "" {
		a.port = ports[a.scheme]
	} else if n, err := strconv.ParseUint(a.port, 10, 16); err != nil {
		return a, fmt.Errorf("%q has an invalid port", text)
	} else {
		a.port = strconv.FormatUint(n, 10)
	}
	return a, nil
}

// canonical returns the one spelling of a host: a name in ASCII and lower case, without a dot at its end, or an IP address. IPv4 addresses
// have more than one notation, and can be part of an IPv6 address.
func canonical(host string) (string, error) {
	if len(host) > maxPattern*4 { // in any alphabet
		return "", errors.New("it is too long")
	}
	if strings.Contains(host, ":") {
		ip, err := netip.ParseAddr(host)
		if err != nil || ip.Zone() != "" {
			return "", fmt.Errorf("%q is not an IPv6 address", host)
		}
		return ip.Unmap().String(), nil
	}
	if strings.Contains(host, "%") {
		decoded, err := url.PathUnescape(host)
		if err != nil || strings.Contains(decoded, "%") {
			return "", fmt.Errorf("%q is not the name of a host", host)
		}
		host = decoded
	}
	name, err := names.ToASCII(host)
	if again, err2 := names.ToASCII(name); err != nil || err2 != nil || again != name || strings.ContainsAny(name, " \"#%/:<>?@[\\]^`{|}\x00\x7f") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return "", fmt.Errorf("%q is not the name of a host", host)
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	labels := strings.Split(name, ".")
	if last := labels[len(labels)-1]; last == "" || !isNumber(last) {
		if last == "" || strings.HasPrefix(name, ".") || strings.Contains(name, "..") {
			return "", fmt.Errorf("%q is not the name of a host", host)
		}
		return name, nil
	}
	return ipv4(host, labels)
}

// isNumber reports whether the last label of a host makes it an IPv4 address.
func isNumber(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(label, "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}

// ipv4 parses the notations of IPv4 addresses: one to four numbers, decimal, octal (0177) or hexadecimal (0x7f), of which the last one
// fills the rest.
func ipv4(host string, labels []string) (string, error) {
	invalid := fmt.Errorf("%q is not an IPv4 address", host)
	if len(labels) > 4 {
		return "", invalid
	}
	var sum uint64
	for i, l := range labels {
		base := 10
		if hex, ok := strings.CutPrefix(l, "0x"); ok {
			l, base = hex, 16
		} else if len(l) > 1 && l[0] == '0' {
			l, base = l[1:], 8
		}
		if l == "" && base == 16 {
			l = "0"
		}
		n, err := strconv.ParseUint(l, base, 64)
		if err != nil || strings.ContainsAny(l, "+-_") {
			return "", invalid
		}
		if i < len(labels)-1 {
			if n > 255 {
				return "", invalid
			}
			sum |= n << (8 * (3 - i))
			continue
		}
		if n >= 1<<(8*(5-len(labels))) {
			return "", invalid
		}
		sum |= n
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}).String(), nil
}

// Host returns the host of an address that can be opened, in its one spelling.
func Host(text string) (string, error) {
	a, err := parseAddress(text)
	return a.host, err
}
