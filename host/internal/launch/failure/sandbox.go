package failure

import (
	"strings"
	"syscall"
)

// sandboxHints are the next steps for errors of bubblewrap and sandbox-exec, by a part of their text.
var sandboxHints = []struct{ part, next string }{
	{"No permissions to create a new namespace", "user namespaces are forbidden here: allow them (sysctl kernel.unprivileged_userns_clone=1, or the container's seccomp profile)"},
	{"Creating new namespace failed", "user namespaces are forbidden or used up here: check sysctl user.max_user_namespaces and the container's settings"},
	{"setting up uid map", "user namespaces are restricted here, by AppArmor on Ubuntu: allow them for bwrap, or set sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	{"RTM_NEWADDR", "network namespaces are restricted here: allow them, or set sandbox { network = true }"},
	{"sandbox_apply: Operation not permitted", "gantry already runs in a macOS sandbox, in which no other can be created: start it outside of that, or set sandbox { mode = \"full-access\" }"},
	{"Can't mount proc", "a new /proc can't be mounted in this unprivileged container: start the container with an unmasked /proc"},
}

// Sandbox returns the error of a sandbox that could not be created. text is what bubblewrap or sandbox-exec has printed.
func Sandbox(op, text string, errno syscall.Errno) *StartError {
	return &StartError{Op: op, Message: sandboxMessage(text, errno), Errno: errno}
}

func sandboxMessage(text string, errno syscall.Errno) string {
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(text, "bwrap: "), "sandbox-exec: "))
	switch {
	case text == "" && errno == syscall.ESTALE:
		text = "a folder that it protects was moved meanwhile; try again, and stop what moves folders if that happens again"
	case text == "" && errno != 0:
		text = Strerror(errno)
	case text == "":
		text = "its helper ended without a message"
	}
	message := "the sandbox could not be created: " + text
	for _, h := range sandboxHints {
		if strings.Contains(text, h.part) {
			return message + "; " + h.next
		}
	}
	return message
}
