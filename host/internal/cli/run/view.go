package run

import "github.com/gantry-agent/gantry/host/internal/cli/render"

// view returns the selected view. If asks is not nil, it asks questions on the same screen; otherwise they are only shown.
func (a *app) view(f execFlags, asks *asks) render.View {
	switch {
	case f.json:
		return render.JSONLines(a.Stdout)
	case f.events:
		return render.EventLines(a.Stdout)
	}
	h := render.NewHuman(a.Stderr, a.Colour(a.Stderr), f.verbose)
	if asks != nil {
		h.ShowOn(asks.screen, true)
	}
	return render.HumanView{Human: h, Last: a.LastMessage()}
}
