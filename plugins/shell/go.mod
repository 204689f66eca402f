module github.com/gantry-agent/gantry/plugins/shell

go 1.26.0

require github.com/gantry-agent/gantry/sdk v0.0.0

require (
	github.com/aymanbagabas/go-udiff v0.4.1 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/image v0.47.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	mvdan.cc/sh/v3 v3.14.1 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace github.com/gantry-agent/gantry/sdk => ../../sdk
