package host

import "github.com/gantry-agent/gantry/host/internal/store"

// TuningStore changes how the store of a host is configured.
func TuningStore(o Options, tune func(*store.Config)) Options {
	o.tuneStore = tune
	return o
}
