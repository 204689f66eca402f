// Otherwise the runtime would keep a descriptor of its control group open, to follow its limits on processors.
//
//go:debug containermaxprocs=0

// Command gantry-launch starts one process for the gantry host and watches over everything that process starts.
//
// It owns: the target's session, process group and controlling terminal, its limits, the reaping of its whole tree, and
// the end of that tree when the host says so or is gone. It must not know: why the process runs, what a plugin or a
// thread is, who reads its output.
//
// Start with watch, the first stage, which stays as the parent of the tree. Where a limit has to be in force before the
// target's first instruction it starts apply, the second stage, which limits itself and then becomes the target. In a box that
// serves one target after another the second stage is keep, which forks them.
//
// The program is started once per process, so it imports little: no os, no fmt, no encoding. The garbage collector is
// off (the host sets GOGC=off), because nothing here allocates in a steady state.
package main

// version is set by the linker.
var version = "devel"
