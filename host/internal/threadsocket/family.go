package threadsocket

import "github.com/gantry-agent/gantry/config/hint"

// errFamily refuses a client that this host has started, directly or through its processes: a command must not approve itself.
var errFamily = hint.New("this process was started by the gantry that runs the thread, so it can only read it", "use another terminal")
