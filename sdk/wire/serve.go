package wire

import (
	"context"
	"io"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// DefaultStopGrace is how long running calls may take to end after Shutdown or SIGTERM. The host's own ladder waits a
// second before it goes on, so a longer grace would only end in a kill.
const DefaultStopGrace = 700 * time.Millisecond

// ServeConfig says what [Serve] serves. Manifest and Register are required.
type ServeConfig struct {
	// Manifest returns what --describe prints. Called once at most.
	Manifest func() *contract.Manifest
	// Register adds the plugin's own services. Called once, before the socket exists.
	Register func(*grpc.Server)
	// Stop is called once when the end begins, whatever began it, and ends what the plugin keeps running by itself. ctx
	// ends with the grace. Calls that still run are waited for at the same time. May be nil.
	Stop func(ctx context.Context)
	// Logger hears about the process's own life. nil: [NewLogger] on Stderr.
	Logger hclog.Logger
	// MaxMessageBytes is the largest message received. 0: [DefaultMaxMessageBytes].
	MaxMessageBytes int
	// StopGrace bounds the end. 0: [DefaultStopGrace].
	StopGrace time.Duration
	// Args are the arguments of the command line without the program. nil: those of the process.
	Args []string
	// Stdout takes the handshake line and what --describe prints; Stderr takes everything else. nil: those of the process.
	Stdout, Stderr io.Writer
	// LookupEnv reads the environment. nil: that of the process.
	LookupEnv func(string) (string, bool)
}
