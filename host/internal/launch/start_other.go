//go:build !linux && !darwin

package launch

import (
	"context"
	"fmt"
	"net"
	"runtime"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// launch refuses: without a subreaper, parent-death signals and pidfds the promises of this package can't be kept, and a
// process that outlives its call or host is worse than none.
func (p *Process) launch(context.Context, *control.Order, *control.Box) ([]byte, error) {
	return nil, enforceable(runtime.GOOS, p.spec.Grant)
}

func (p *Process) listener() (net.Listener, error) {
	return nil, enforceable(runtime.GOOS, p.spec.Grant)
}

func (l *Launcher) spare(*Process) {}

func (l *Launcher) endSpare() {}

func (l *Launcher) keepMonitor(*monitor) bool { return false }

func (m *monitor) waits() bool { return false }

func (m *monitor) serves(*Spec) bool { return false }

func (m *monitor) full() bool { return true }

func (l *Launcher) makeReady(context.Context, *monitor, *control.Box) (*ready, error) {
	return nil, enforceable(runtime.GOOS, Grant{})
}

// Resize fails: there are no terminals here.
func (p *Process) Resize(rows, cols uint16) error {
	return fmt.Errorf("resize to %dx%d: terminals are not supported on %s", rows, cols, runtime.GOOS)
}

func killSession(int) {}

// Adopt does nothing: this system hands orphans to its first process.
func (l *Launcher) Adopt() error { return nil }
