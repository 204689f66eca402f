module github.com/gantry-agent/gantry/plugins/browser

go 1.26.0

replace github.com/gantry-agent/gantry/sdk => ../../sdk

require (
	github.com/chromedp/cdproto v0.159.3
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
)

require github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
