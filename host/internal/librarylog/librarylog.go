// Package librarylog redirects the logs of libraries to the host's log.
//
// It owns: the settings of the standard log package and of grpclog. It must not know: who logs what.
//
// Start with [Redirect].
package librarylog

import (
	"fmt"
	"log"
	"strings"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/grpclog"
)

// Redirect redirects what libraries print with the standard log package and with grpclog to logger. Without it they write
// to standard error, in the middle of whatever the host displays there. The main function calls it first, because both are
// settings of the whole process.
func Redirect(logger hclog.Logger) {
	log.SetFlags(0)
	log.SetPrefix("")
	log.SetOutput(logger.Named("log").StandardWriter(&hclog.StandardLoggerOptions{InferLevels: true}))
	grpclog.SetLoggerV2(grpcLogger{logger.Named("grpc")})
}

// grpcLogger lowers the levels of gRPC's messages, infos to trace and errors to warnings: gRPC logs as an error whatever a
// peer can cause, and the peers here are plugins.
type grpcLogger struct{ l hclog.Logger }

var _ grpclog.LoggerV2 = grpcLogger{}

func text(args []any) string { return strings.TrimSuffix(fmt.Sprintln(args...), "\n") }

func (g grpcLogger) Info(args ...any)               { g.l.Trace(fmt.Sprint(args...)) }
func (g grpcLogger) Infoln(args ...any)             { g.l.Trace(text(args)) }
func (g grpcLogger) Infof(f string, args ...any)    { g.l.Trace(fmt.Sprintf(f, args...)) }
func (g grpcLogger) Warning(args ...any)            { g.l.Debug(fmt.Sprint(args...)) }
func (g grpcLogger) Warningln(args ...any)          { g.l.Debug(text(args)) }
func (g grpcLogger) Warningf(f string, args ...any) { g.l.Debug(fmt.Sprintf(f, args...)) }
func (g grpcLogger) Error(args ...any)              { g.l.Warn(fmt.Sprint(args...)) }
func (g grpcLogger) Errorln(args ...any)            { g.l.Warn(text(args)) }
func (g grpcLogger) Errorf(f string, args ...any)   { g.l.Warn(fmt.Sprintf(f, args...)) }
func (g grpcLogger) Fatal(args ...any)              { panic("grpc: " + text(args)) }
func (g grpcLogger) Fatalln(args ...any)            { panic("grpc: " + text(args)) }
func (g grpcLogger) Fatalf(f string, args ...any)   { panic("grpc: " + fmt.Sprintf(f, args...)) }
func (g grpcLogger) V(level int) bool               { return g.l.IsTrace() && level <= 2 }
