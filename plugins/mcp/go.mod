module github.com/gantry-agent/gantry/plugins/mcp

go 1.26.0

replace github.com/gantry-agent/gantry/sdk => ../../sdk

require (
	github.com/gantry-agent/gantry/sdk v0.0.0-00010101000000-000000000000
	pgregory.net/rapid v1.3.0
)

require github.com/google/jsonschema-go v0.4.3 // indirect
