// Package kernel is the life of one worker: it starts or adopts it, runs cells in it, and ends it.
//
// It owns: frames, the order of a cell's output and its end, interrupts, and the end of a worker. It must not know: tools and calls,
// which Python runs the worker, what a model reads.
//
// Start with [Kernel].
package kernel
