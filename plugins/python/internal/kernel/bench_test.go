//go:build unix

package kernel_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/gantry-agent/gantry/plugins/python/internal/kernel"
	"github.com/gantry-agent/gantry/plugins/python/internal/worker"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/process/processtest"
)

// benchKernel starts a kernel with the system's Python, which is not a script that starts another one.
func benchKernel(b *testing.B, host *processtest.Host) *kernel.Kernel {
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		b.Skip("there is no /usr/bin/python3")
	}
	cmd := host.Broker("ct").Command(b.Context(), worker.Argv(python)...)
	cmd.Dir, cmd.Session, cmd.Keep = b.TempDir(), true, &process.Keep{}
	in, _ := cmd.StdinPipe()
	frames, _ := cmd.StdoutPipe()
	output, _ := cmd.StderrPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	k, err := kernel.Start(b.Context(), kernel.Worker{Process: cmd, In: in, Frames: frames, Output: output}, worker.Preamble(0))
	if err != nil {
		b.Fatal(err)
	}
	return k
}

// BenchmarkStart is the time from the start of a kernel to its first result.
func BenchmarkStart(b *testing.B) {
	host := processtest.Start(b, processtest.Options{})
	for b.Loop() {
		k := benchKernel(b, host)
		if _, err := k.Run(context.Background(), "x = 1", nil, nil); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := k.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkCell is the round trip of a cell.
func BenchmarkCell(b *testing.B) {
	k := benchKernel(b, processtest.Start(b, processtest.Options{}))
	for b.Loop() {
		if _, err := k.Run(context.Background(), "x = 1", nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := k.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}
