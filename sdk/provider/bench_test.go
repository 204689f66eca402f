//go:build linux

package provider

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// build makes the binary of testdata/hello as plugins are shipped.
func build(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "hello")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-tags=grpcnotrace", "-o", path, "./testdata/hello")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return path
}

// BenchmarkStartToFirstRPC starts a real provider binary until Describe has answered.
func BenchmarkStartToFirstRPC(b *testing.B) {
	path := build(b)
	for b.Loop() {
		p := startProcess(b, path)
		if _, err := gantryv1.NewPluginServiceClient(p.conn).Describe(b.Context(), &gantryv1.DescribeRequest{}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		p.end()
		b.StartTimer()
	}
}

// BenchmarkUnary is a round trip to a real provider binary.
func BenchmarkUnary(b *testing.B) {
	for _, size := range []int{16, 1 << 10, 64 << 10} {
		b.Run(byteSize(size), func(b *testing.B) {
			p := startProcess(b, self(b), asPlugin+"=1")
			defer p.end()
			pc := gantryv1.NewPluginServiceClient(p.conn)
			if _, err := pc.Configure(b.Context(), &gantryv1.ConfigureRequest{}); err != nil {
				b.Fatal(err)
			}
			r := &gantryv1.CommandRequest{Name: "whoami", InputJson: []byte(strings.Repeat("1", size))}
			for b.Loop() {
				if _, err := pc.Command(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func byteSize(n int) string {
	return map[int]string{16: "16B", 1 << 10: "1KiB", 64 << 10: "64KiB"}[n]
}

// BenchmarkStream is an answer of one text in a thousand deltas.
func BenchmarkStream(b *testing.B) {
	p := startProcess(b, self(b), asPlugin+"=1")
	defer p.end()
	if _, err := gantryv1.NewPluginServiceClient(p.conn).Configure(b.Context(), &gantryv1.ConfigureRequest{}); err != nil {
		b.Fatal(err)
	}
	pc := gantryv1.NewProviderServiceClient(p.conn)
	events := 0
	for b.Loop() {
		got, err := receive(pc.Stream(b.Context(), request(manyDeltas)))
		if err != nil {
			b.Fatal(err)
		}
		events += len(got)
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkOutbox is what a delta costs on its way from emit to the bytes of a message.
func BenchmarkOutbox(b *testing.B) {
	var message []byte
	o := newOutbox(b.Context(), func(r *gantryv1.StreamResponse) (err error) {
		message, err = proto.MarshalOptions{}.MarshalAppend(message[:0], r)
		return err
	})
	b.ReportAllocs()
	e := llm.Event(llm.BlockDelta{Kind: llm.BlockText, ID: "text-0", Text: " lantern"})
	for b.Loop() {
		if err := o.emit(e); err != nil {
			b.Fatal(err)
		}
	}
	if err := o.close(); err != nil {
		b.Fatal(err)
	}
}
