// Weather is a complete tool plugin: build it, name the binary as the source of a plugin block, and ask for a forecast.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/sdk/tool"
)

type config struct {
	Units string        `json:"units" doc:"Units of all reports." default:"metric" enum:"metric,imperial"`
	Pace  time.Duration `json:"pace" doc:"Time that one day takes." default:"20ms"`
}

type args struct {
	City string `json:"city" jsonschema:"name of the city"`
	Days int    `json:"days,omitempty" jsonschema:"how many days, 1 to 7; default 3"`
}

func main() {
	cfg := &config{}
	forecast := func(ctx context.Context, c *tool.Call, in args) (*tool.Result, error) {
		if in.Days == 0 {
			in.Days = 3
		}
		if in.Days < 1 || in.Days > 7 {
			return nil, fmt.Errorf("days must be 1 to 7, not %d", in.Days)
		}
		var report strings.Builder
		for day := range in.Days {
			degrees, unit := 12+(len(in.City)*7+day*5)%15, "°C"
			if cfg.Units == "imperial" {
				degrees, unit = degrees*9/5+32, "°F"
			}
			line := fmt.Sprintf("%d%s in %s on day %d\n", degrees, unit, in.City, day+1)
			report.WriteString(line)
			c.Output([]byte(line))
			c.Progress("asking the sky", float64(day+1), float64(in.Days))
			select {
			case <-time.After(cfg.Pace):
			case <-ctx.Done(): // the host asked to stop; what we return is still the result
				return tool.Errorf("stopped after day %d:\n%s", day+1, report.String()), nil
			}
		}
		if _, err := c.Artifact(ctx, "forecast.txt", "text/plain", strings.NewReader(report.String())); err != nil {
			return nil, err
		}
		sort := c.Command(ctx, "sort", "-rn") // started by the host, under this call's grant
		sort.Stdin = strings.NewReader(report.String())
		warmest, err := sort.Output()
		return tool.Text("Warmest first:\n" + string(warmest)), err
	}
	tool.Main(tool.Plugin{Name: "weather", Version: "1.0.0", Description: "Weather reports.", Config: cfg,
		Capabilities: []string{"spawn"}, Tools: []tool.Tool{
			tool.New("forecast", "Forecasts the weather of a city.", forecast, tool.ReadOnly(), tool.ParallelSafe())}})
}
