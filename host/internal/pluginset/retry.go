package pluginset

import (
	"errors"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

// RetryCrash calls a plugin again if its process crashed during the call. The call must have no side effects.
func RetryCrash(call func() error) error {
	err := call()
	if e, ok := errors.AsType[*plugin.Error](err); ok && e.Crash && e.Phase == plugin.PhaseCall {
		err = call()
	}
	return err
}
