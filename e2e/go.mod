module github.com/gantry-agent/gantry/e2e

go 1.26.0

require github.com/gantry-agent/gantry/sdk v0.0.0

replace github.com/gantry-agent/gantry/sdk => ../sdk

require (
	github.com/creack/pty v1.1.24
	github.com/gantry-agent/gantry/config v0.0.0
)

require (
	github.com/rogpeppe/go-internal v1.16.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
)

replace github.com/gantry-agent/gantry/config => ../config
