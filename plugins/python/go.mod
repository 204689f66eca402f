module github.com/gantry-agent/gantry/plugins/python

go 1.26.0

replace github.com/gantry-agent/gantry/sdk => ../../sdk
