module github.com/gantry-agent/gantry/providers

go 1.26.0

require github.com/gantry-agent/gantry/sdk v0.0.0

require (
	go.uber.org/goleak v1.3.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace github.com/gantry-agent/gantry/sdk => ../sdk
