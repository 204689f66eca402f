package action

import (
	"context"
	"errors"
	"fmt"
	"strings"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"

	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// Emulate is the device, and the place, that a page is shown.
type Emulate struct {
	Width     int      `json:"width,omitempty"`
	Height    int      `json:"height,omitempty"`
	Scale     float64  `json:"scale,omitempty"`
	Mobile    bool     `json:"mobile,omitempty"`
	UserAgent string   `json:"user_agent,omitempty"`
	Media     string   `json:"media,omitempty" enum:"screen,print"`
	Color     string   `json:"color_scheme,omitempty" enum:"light,dark"`
	Motion    string   `json:"motion,omitempty" enum:"reduce,no-preference"`
	Latitude  *float64 `json:"latitude,omitempty"`
	Longitude *float64 `json:"longitude,omitempty"`
	Timezone  string   `json:"timezone,omitempty" jsonschema:"Europe/Paris"`
	Locale    string   `json:"locale,omitempty" jsonschema:"fr-FR"`
	Network   string   `json:"network,omitempty" enum:"online,offline,slow,fast"`
	Reset     bool     `json:"reset,omitempty" jsonschema:"what is not given"`
}

// throttled are the kinds of networks: latency in milliseconds, and bytes a second.
var throttled = map[string]network.OverrideNetworkStateParams{
	"online": {DownloadThroughput: -1, UploadThroughput: -1}, "offline": {Offline: true, DownloadThroughput: -1, UploadThroughput: -1},
	"slow": {Latency: 400, DownloadThroughput: 50 << 10, UploadThroughput: 25 << 10}, "fast": {Latency: 60, DownloadThroughput: 1 << 20, UploadThroughput: 256 << 10},
}

// Settings returns the commands for the browser, and what they change.
func (a *Emulate) Settings() (settings []target.Setting, what []string, err error) {
	add := func(what1, method string, params any, top bool) {
		settings = append(settings, target.Setting{Method: method, Params: params, Top: top})
		if what1 != "" {
			what = append(what, what1)
		}
	}
	switch {
	case a.Width < 0 || a.Height < 0 || a.Width > 10_000 || a.Height > 10_000 || (a.Width == 0) != (a.Height == 0):
		return nil, nil, errors.New("give both width and height, up to 10000")
	case a.Width > 0:
		add(fmt.Sprintf("a screen of %dx%d", a.Width, a.Height), emulation.CommandSetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: int64(a.Width), Height: int64(a.Height), DeviceScaleFactor: a.Scale, Mobile: a.Mobile,
		}, true)
		add("", emulation.CommandSetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: a.Mobile}, true)
	case a.Reset:
		add("", emulation.CommandClearDeviceMetricsOverride, protocol.Empty{}, true)
		add("", emulation.CommandSetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{}, true)
	case a.Mobile || a.Scale != 0:
		return nil, nil, errors.New("mobile and scale need width and height")
	}
	if a.UserAgent != "" || a.Reset {
		add(named(a.UserAgent, "the user agent %q"), emulation.CommandSetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: a.UserAgent}, false)
	}
	if a.Media+a.Color+a.Motion != "" || a.Reset {
		p := emulation.SetEmulatedMediaParams{Media: a.Media, Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: a.Color}, {Name: "prefers-reduced-motion", Value: a.Motion},
		}}
		add(named(strings.Join(strings.Fields(a.Media+" "+a.Color+" "+a.Motion), ", "), "the media %s"), emulation.CommandSetEmulatedMedia, p, false)
	}
	switch {
	case (a.Latitude == nil) != (a.Longitude == nil):
		return nil, nil, errors.New("give both latitude and longitude")
	case a.Latitude != nil:
		add(fmt.Sprintf("the place %g, %g", *a.Latitude, *a.Longitude), emulation.CommandSetGeolocationOverride, emulation.SetGeolocationOverrideParams{
			Latitude: a.Latitude, Longitude: a.Longitude, Accuracy: new(10.0),
		}, false)
	case a.Reset:
		add("", emulation.CommandClearGeolocationOverride, protocol.Empty{}, false)
	}
	if a.Timezone != "" || a.Reset {
		add(named(a.Timezone, "the time zone %s"), emulation.CommandSetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: a.Timezone}, false)
	}
	if a.Locale != "" || a.Reset {
		add(named(a.Locale, "the locale %s"), emulation.CommandSetLocaleOverride, emulation.SetLocaleOverrideParams{Locale: a.Locale}, false)
	}
	if a.Network != "" || a.Reset {
		kind := a.Network
		if kind == "" {
			kind = "online"
		}
		n, ok := throttled[kind]
		if !ok {
			return nil, nil, fmt.Errorf("unknown network %q: use online, offline, slow or fast", kind)
		}
		add(named(a.Network, "the network %s"), network.CommandOverrideNetworkState, n, false)
		add("", network.CommandEmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{{
			Latency: n.Latency, DownloadThroughput: n.DownloadThroughput, UploadThroughput: n.UploadThroughput, Offline: n.Offline,
		}}}, false)
	}
	if len(settings) == 0 {
		return nil, nil, errors.New("give what to emulate, or reset")
	}
	if a.Reset {
		what = append(what, "what the browser has otherwise")
	}
	return settings, what, nil
}

func named(value, format string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(format, value)
}

func (a *Emulate) do(ctx context.Context, r *run) (string, error) {
	settings, what, err := a.Settings()
	if err != nil {
		return "", err
	}
	if err := a.Permit(ctx, r.s.Browser); err != nil {
		return "", err
	}
	return "Emulating " + strings.Join(what, ", "), r.tab.Apply(ctx, settings)
}

// Permit lets pages ask for the place, which is not that of the user, without a question.
func (a *Emulate) Permit(ctx context.Context, b *target.Browser) error {
	if a.Latitude == nil {
		return nil
	}
	return b.Grant(ctx, "geolocation")
}
