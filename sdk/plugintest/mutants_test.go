//go:build unix

package plugintest

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/wire"
)

// mutant is the reference plugin with one rule broken.
type mutant struct {
	check string // the only one that must fail
	how   string
	// change breaks the rule inside the plugin; prepare breaks it in how the kit is told to start it.
	change  func(*reference)
	prepare func(*Config)
}

// name by which the mutant's process is told what it is.
func (m mutant) name() string { return m.check + "/" + m.how }

func stream(i grpc.StreamServerInterceptor) func(*reference) {
	return func(r *reference) { r.stream = i }
}

func unary(i grpc.UnaryServerInterceptor) func(*reference) {
	return func(r *reference) { r.unary = i }
}

// asProvider makes the mutant a provider.
func asProvider(change func(*reference)) func(*reference) {
	return func(r *reference) { r.provider = true; change(r) }
}

func prints(line func(h wire.Handshake) string) func(*reference) {
	return func(r *reference) { r.line = line }
}

func refused(code codes.Code) error { return status.Error(code, "broken on purpose") }

// mutants lists at least one for each check.
func mutants() []mutant {
	all := [][]mutant{byHandMutants(), startMutants(), configureMutants(), messageMutants(), toolMutants(), callMutants(), streamMutants(), viewMutants(), providerMutants(), endMutants()}
	var out []mutant
	for _, group := range all {
		out = append(out, group...)
	}
	return out
}

// waitFor returns true when ctx ends within d.
func waitFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(d):
		return false
	}
}
