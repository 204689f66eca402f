package plugin

import (
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/grpclog"
)

// RedirectLibraryLogs sends what libraries print through the standard log package and through grpc to logger. Without it
// they write to the terminal's standard error, in the middle of whatever the host shows there. main calls it once, before
// anything else: both are settings of the whole process.
func RedirectLibraryLogs(logger hclog.Logger) {
	log.SetFlags(0)
	log.SetPrefix("")
	log.SetOutput(logger.Named("log").StandardWriter(&hclog.StandardLoggerOptions{InferLevels: true}))
	grpclog.SetLoggerV2(grpcLogger{logger.Named("grpc")})
}

// grpcLogger shows grpc's infos as trace and its errors as warnings: it calls everything an error that a peer can cause,
// and the peers here are plugins.
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

// discard is a logger for what is said elsewhere already.
func discard() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard})
}
