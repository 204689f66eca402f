// Without this setting, the runtime would keep a descriptor of its control group open to follow its processor limits.
//
//go:debug containermaxprocs=0

// Command gantry-launch starts one process, the target, for the gantry host, and is the parent of its process tree.
//
// It owns: the target's session, process group and controlling terminal, its limits, the reaping of its whole tree, and the end of
// that tree when the host asks for it or has ended. It must not know: why the process runs, what a plugin or a thread is, who reads its
// output.
//
// Start with watch, the first stage, which remains the parent of the tree. If a limit has to be in force before the target's first
// instruction, it starts apply, the second stage, which limits itself and then executes the target. In a sandbox that is reused for
// several targets the second stage is keep, which forks them.
//
// The program is started for almost every process, so it imports little: no os, no fmt, no encoding. The garbage collector is off (the
// host sets GOGC=off), because nothing here allocates in a steady state.
package main

// version is set by the linker.
var version = "devel"
