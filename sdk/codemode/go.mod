module github.com/gantry-agent/gantry/sdk/codemode

go 1.26.0

require (
	github.com/evanw/esbuild v0.28.2
	github.com/grafana/sobek v0.0.0-20260429085637-a66d4790012b
)

require (
	github.com/go-sourcemap/sourcemap v2.1.4+incompatible // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace github.com/gantry-agent/gantry/sdk => ../
