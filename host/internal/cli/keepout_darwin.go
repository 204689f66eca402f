package cli

import "golang.org/x/sys/unix"

// keepOut prevents debuggers, including those run by a model's commands, from attaching to this process, whose memory contains
// keys, and disables core dumps. The initial environment remains visible to unsandboxed processes of the user.
func keepOut() {
	_ = unix.PtraceDenyAttach() // nothing can be done if this is denied
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
