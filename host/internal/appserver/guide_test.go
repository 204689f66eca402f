package appserver

import (
	"flag"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/protocol/protocoltest"
)

var update = flag.Bool("update", false, "write the tables of the guide")

// The guide lists the methods that a server has.
func TestGuide(t *testing.T) {
	handlers := (&Server{}).methods()
	protocoltest.Guide(t, "../../../docs/guides/app-server.md", func(method string) bool { return handlers[method].spec != nil }, *update)
}
