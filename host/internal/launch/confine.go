package launch

import (
	"strings"
	"syscall"
)

// boxHints are what to do about the complaints of bubblewrap and sandbox-exec, by a part of their text.
var boxHints = []struct{ part, next string }{
	{"No permissions to create a new namespace", "user namespaces are forbidden here: allow them (sysctl kernel.unprivileged_userns_clone=1, or the container's seccomp profile)"},
	{"Creating new namespace failed", "user namespaces are forbidden or used up here: look at sysctl user.max_user_namespaces and at the container's settings"},
	{"setting up uid map", "user namespaces are restricted here, by AppArmor on Ubuntu: allow them for bwrap, or set sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	{"RTM_NEWADDR", "network namespaces are restricted here: allow them, or set sandbox { network = true }"},
	{"sandbox_apply: Operation not permitted", "gantry runs in a sandbox of macOS already, in which no other can be made: start it outside of that, or set sandbox { mode = \"full-access\" }"},
	{"Can't mount proc", "a new /proc can't be mounted here, in a container without privileges: start the container with an unmasked /proc"},
}

// boxProblem words why a box was not made. Nothing ran.
func boxProblem(said string, errno syscall.Errno) string {
	said = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(said, "bwrap: "), "sandbox-exec: "))
	switch {
	case said == "" && errno == syscall.ESTALE:
		said = "what it is to keep was moved meanwhile; try again, and end what moves folders if that happens again"
	case said == "" && errno != 0:
		said = Strerror(errno)
	case said == "":
		said = "it ended without a word"
	}
	text := "the sandbox could not be made: " + said
	for _, h := range boxHints {
		if strings.Contains(said, h.part) {
			return text + "; " + h.next
		}
	}
	return text
}
