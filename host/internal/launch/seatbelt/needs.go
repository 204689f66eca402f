package seatbelt

import (
	"fmt"
	"strconv"
)

// needs allows what every program needs and what concerns only itself: its children, its terminal, what the machine is. Other
// processes can be neither seen nor signalled. Services are reached only if they are listed here, so that nothing is started
// outside through them, and no key is asked for.
func (w *writer) needs() {
	w.line("(allow process-exec)")
	w.line("(allow process-fork)")
	w.line("(allow process-info* (target same-sandbox))")
	w.line("(allow signal (target same-sandbox))")
	// Semaphores are named globally; Python's process pools use them. Shared memory is named as well, but has content.
	w.line("(allow ipc-posix-sem)")
	w.line(`(allow ipc-posix-shm-read* (ipc-posix-name "apple.shm.notification_center"))`)
	// Socket pairs. Connecting to a Unix socket needs another right.
	w.line("(allow system-socket (socket-domain AF_UNIX))")
	// Not kern.proc and kern.procargs2, which show other processes and their environment.
	w.line(`(allow sysctl-read (sysctl-name-prefix "hw.") (sysctl-name-prefix "machdep.cpu.") (sysctl-name-prefix "vm.")`,
		`(sysctl-name-prefix "user.") (sysctl-name-prefix "kern.os")`,
		`(sysctl-name "kern.argmax") (sysctl-name "kern.boottime") (sysctl-name "kern.hostname") (sysctl-name "kern.iossupportversion")`,
		`(sysctl-name "kern.maxfiles") (sysctl-name "kern.maxfilesperproc") (sysctl-name "kern.maxproc") (sysctl-name "kern.maxprocperuid")`,
		`(sysctl-name "kern.ngroups") (sysctl-name "kern.secure_kernel") (sysctl-name "kern.usrstack64") (sysctl-name "kern.version")`,
		`(sysctl-name "sysctl.name2oid") (sysctl-name "sysctl.proc_cputype") (sysctl-name "sysctl.proc_native") (sysctl-name "sysctl.proc_translated"))`)
	w.line(`(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") (global-name "com.apple.system.opendirectoryd.membership")`,
		`(global-name "com.apple.system.notification_center") (global-name "com.apple.system.logger") (global-name "com.apple.logd")`,
		`(global-name "com.apple.bsd.dirhelper"))`)
}

// devices allows the few devices that programs need, whatever the rules for files say.
func (w *writer) devices() {
	// A program that can't see the root can't load its libraries. The other three are links into /private.
	w.line("(allow", reading, `(literal "/") (literal "/etc") (literal "/tmp") (literal "/var"))`)
	// The terminal: the process's own as /dev/tty, and those that it creates. Others can't be opened, so the requests below only
	// reach terminals that were passed to the process.
	w.line("(allow pseudo-tty)")
	w.line("(deny", reading, `file-write* (regex "^/dev/ttys[0-9]+$"))`)
	w.line("(allow", showing, `(regex "^/dev/ttys[0-9]+$"))`)
	w.line("(allow", reading, `file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx")`,
		`(literal "/dev/stdin") (literal "/dev/stdout") (literal "/dev/stderr") (subpath "/dev/fd"))`)
	w.line("(allow", reading, `(literal "/dev/random") (literal "/dev/urandom") (literal "/dev/dtracehelper") (literal "/dev/autofs_nowait"))`)
	w.line(`(allow file-ioctl (literal "/dev/tty") (literal "/dev/ptmx") (literal "/dev/null") (literal "/dev/dtracehelper") (regex "^/dev/ttys[0-9]+$"))`)
	w.line("(allow", reading, `file-write* (require-all (regex "^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))`)
}

// network allows what the policy's network reaches.
func (p Policy) network(w *writer) error {
	switch p.Network {
	case NetworkNone:
	case NetworkProxy:
		if p.Port <= 0 || p.Port > 65535 {
			return fmt.Errorf("invalid proxy port %d", p.Port)
		}
		w.line(`(allow network-outbound (remote ip "localhost:` + strconv.Itoa(p.Port) + `"))`)
		w.line("(allow mach-lookup", services)
	case NetworkFull:
		w.line(`(allow network-outbound (remote ip "*:*"))`)
		w.line(`(allow network-bind (local ip "*:*"))`)
		w.line(`(allow network-inbound (local ip "*:*"))`)
		// The name service listens here.
		w.line(`(allow network-outbound (remote unix-socket (path-literal "/private/var/run/mDNSResponder")))`)
		w.line("(allow system-socket (socket-domain AF_ROUTE))")
		w.line(`(allow sysctl-read (sysctl-name-prefix "net.routetable."))`)
		w.line(`(allow mach-lookup (global-name "com.apple.dnssd.service"))`)
		w.line("(allow mach-lookup", services)
	default:
		return fmt.Errorf("the policy has no network")
	}
	for _, dir := range p.Sockets {
		if err := (Rule{Path: dir}).check(); err != nil {
			return err
		}
		w.line("(allow network-bind network-inbound (local unix-socket", w.subpath(dir)+"))")
		w.line("(allow network-outbound (remote unix-socket", w.subpath(dir)+"))")
	}
	return nil
}

// services are what programs ask about a network: whether a certificate is valid, which proxies there are.
const services = `(global-name "com.apple.trustd") (global-name "com.apple.trustd.agent") (global-name "com.apple.SystemConfiguration.configd")` +
	` (global-name "com.apple.SystemConfiguration.DNSConfiguration"))`
