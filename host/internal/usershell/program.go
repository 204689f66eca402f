package usershell

import (
	"bytes"
	"context"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/google/uuid"
)

// Limits of a program that the host runs to get information.
const (
	programTimeout = time.Minute
	programOutput  = 4 << 20
)

// Printed is the output of a program, and its exit status.
type Printed struct {
	Stdout, Stderr string
	Code           int
}

// Ask runs a program of the user in a folder and returns its output, up to some megabytes. env is its complete environment. It
// belongs to no call: there is no item, and the model does not see it.
func (s *Shell) Ask(ctx context.Context, g launch.Grant, dir string, env []string, argv ...string) (Printed, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, programTimeout, errTimeout)
	defer cancel()
	own := launch.Owner{Plugin: owner, Call: uuid.Must(uuid.NewV7()).String()}
	p, err := s.cfg.Spawn(ctx, launch.Spec{
		Argv: argv, Cwd: dir, Env: env, Grant: g, Owner: own,
	})
	if err != nil {
		return Printed{}, err
	}
	var stdout, stderr bytes.Buffer
	exit, err := p.Attach(ctx, nil, func(o launch.Output) error {
		to := &stdout
		if o.Stderr {
			to = &stderr
		}
		to.Write(o.Data[:min(len(o.Data), programOutput-to.Len())])
		return nil
	})
	if err != nil { // it may be running
		keep, done := context.WithTimeout(context.WithoutCancel(ctx), programTimeout)
		defer done()
		if eerr := s.cfg.Processes.EndCall(keep, own); eerr != nil {
			s.cfg.Logger.Warn("a program was not ended", "err", eerr)
		}
		return Printed{}, err
	}
	return Printed{stdout.String(), stderr.String(), exit.Code}, nil
}
