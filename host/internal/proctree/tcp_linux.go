package proctree

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/procfs"
)

// ContainsTCP reports whether the peer of a TCP connection is a descendant of the process root. It looks for the peer's socket among the
// open files of these processes, so it finds neither a process that hides them from this user nor one that has passed the socket on. It
// returns false for root itself, and for a peer on another machine or in another network namespace. The error matches
// [errors.ErrUnsupported] on systems other than Linux.
func ContainsTCP(conn *net.TCPConn, root int) (bool, error) {
	inode, err := socketOf(conn.RemoteAddr().(*net.TCPAddr).AddrPort(), conn.LocalAddr().(*net.TCPAddr).AddrPort())
	if err != nil || inode == "" {
		return false, err
	}
	for _, p := range procfs.ReadChildren().Tree(root)[1:] {
		files, err := filepath.Glob("/proc/" + strconv.Itoa(p.PID) + "/fd/*") // none if it has ended
		if err != nil {
			return false, err
		}
		for _, f := range files {
			if name, err := os.Readlink(f); err == nil && name == "socket:["+inode+"]" {
				return true, nil
			}
		}
	}
	return false, nil
}

// socketOf returns the inode of the TCP socket of this machine with these addresses, "" if there is none.
func socketOf(local, remote netip.AddrPort) (string, error) {
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if errors.Is(err, fs.ErrNotExist) { // without IPv6
			continue
		}
		if err != nil {
			return "", err
		}
		inode, err := findSocket(bufio.NewScanner(f), local, remote)
		f.Close()
		if err != nil {
			return "", fmt.Errorf("%s: %w", table, err)
		}
		if inode != "" {
			return inode, nil
		}
	}
	return "", nil
}

// findSocket looks for a socket in a table of the kernel.
func findSocket(table *bufio.Scanner, local, remote netip.AddrPort) (string, error) {
	for table.Scan() {
		f := strings.Fields(table.Text())
		if len(f) < 10 {
			continue
		}
		// The first line is a heading. The inode of a socket that is being closed is 0.
		if l, ok := parseSocketAddr(f[1]); ok && l == unmapped(local) {
			if r, ok := parseSocketAddr(f[2]); ok && r == unmapped(remote) && f[9] != "0" {
				return f[9], nil
			}
		}
	}
	return "", table.Err()
}

// parseSocketAddr parses an address like 0100007F:1F90: words of 32 bits in the machine's byte order, and a port.
func parseSocketAddr(s string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	if err != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	ip, _ := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	return unmapped(netip.AddrPortFrom(ip, uint16(n))), err == nil
}

// unmapped returns an address as it is compared: IPv4 is IPv4, and the kernel's table has no zones.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
