//go:build !unix

package main

import (
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// start fails: a server can't be given a socket here.
func (c *child) start() (rpc.Stream, error) {
	return nil, hint.New("the terminal interface is not available on this system", "use `gantry exec`")
}
