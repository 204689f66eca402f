// Package kernel builds what the Linux kernel enforces on a sandboxed process besides its mounts: Landlock rules and a system call filter.
//
// It owns: the rights of Landlock by version, the seccomp programs. It must not know: which folders are writable and why, how a process
// is started.
//
// Start with [Filter] and [LandlockRules].
package kernel
