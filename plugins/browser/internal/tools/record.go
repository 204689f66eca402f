package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/record"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const recordDescription = "Records what happens in the browser, for people: har has the requests and answers, trace the times of actions, pages and requests, " +
	"gif a picture after each call, video the tab. start begins, stop ends it and keeps the files."

type recordArgs struct {
	Do    string   `json:"do" enum:"start,stop"`
	Kinds []string `json:"kinds,omitempty" jsonschema:"har, trace, gif, video; default: the first three."`
}

func (p *browserPlugin) recordTool() tool.Tool {
	return tool.New("browser_record", recordDescription, guarded(p, p.record), tool.Assess(known(p, p.assessRecord)), tool.ParallelSafe(), tool.SerialGroup(group), tool.Deferred())
}

func (p *browserPlugin) assessRecord(_ context.Context, c *tool.AssessCall, in recordArgs) (*contract.Assessment, error) {
	r := p.thread(c.ThreadID()).running()
	if r == nil {
		return &contract.Assessment{Early: tool.Text("There is no browser yet. browser_act with the action navigate starts one.")}, nil
	}
	a := &contract.Assessment{Summary: in.Do + " recording", Item: &contract.BrowserItem{Action: "record " + in.Do}}
	if a.ReadOnly = in.Do == "start" || p.config.Downloads == ""; !a.ReadOnly {
		// The files are kept like downloads, about which the host is asked then.
		for _, t := range r.Browser.Tabs() {
			if o := origin(t.Info().URL); o != "" {
				a.Effects = append(a.Effects, contract.BrowserEffect{Origin: o})
			}
		}
	}
	return a, nil
}

func (p *browserPlugin) record(ctx context.Context, c *tool.Call, in recordArgs) (*tool.Result, error) {
	const name = "browser_record"
	t := p.thread(c.ThreadID())
	done, err := t.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	r := t.running()
	if r == nil {
		return failed(name, fmt.Errorf("the browser is gone (%s)", t.takeLost())), nil
	}
	defer r.idle.Reset(p.config.Idle)
	if in.Do == "start" {
		if err := p.startRecording(ctx, r, in.Kinds); err != nil {
			return failed(name, err), nil
		}
		r.interrupted = false
		r.remember(ctx)
		return tool.Text("Recording " + strings.Join(r.recorder.Kinds(), ", ") + ". browser_record with stop ends it; it is lost if the browser ends before."), nil
	}
	x := p.transfer(c, r)
	lines, err := x.stopRecording(ctx)
	if err != nil {
		return failed(name, err), nil
	}
	return &tool.Result{Parts: append(parts(strings.Join(lines, "\n"), nil, c), x.parts...), SessionID: r.id}, nil
}

// startRecording records the browser from now on; no kinds are all but a video. In a film, nobody can look for secrets.
func (p *browserPlugin) startRecording(ctx context.Context, r *running, kinds []string) error {
	if slices.Contains(kinds, record.Video) && len(p.secrets.all()) > 0 {
		return errors.New("there is no video while the plugin's block has secrets, because it could show one; record a gif, which leaves such pictures out")
	}
	if r.recorder != nil {
		return errors.New("a recording of " + strings.Join(r.recorder.Kinds(), ", ") + " goes on; stop it first")
	}
	if len(kinds) == 0 {
		kinds = []string{record.HAR, record.Trace, record.GIF}
	}
	x, err := record.Start(r.Browser, kinds)
	if err != nil {
		return err
	}
	r.recorder = x
	tab, err := r.Tab(ctx, "")
	if err == nil {
		err = x.Film(ctx, tab)
	}
	if err != nil {
		r.recorder = nil
		_, _ = x.Stop(ctx, p.secrets.masks.Text) // nothing was recorded
	}
	return err
}

// stopRecording ends the recording, keeps its files, and says where.
func (x *transfer) stopRecording(ctx context.Context) ([]string, error) {
	rec := x.r.recorder
	if rec == nil {
		return nil, errors.New("nothing is recorded")
	}
	x.r.recorder = nil
	x.r.remember(ctx)
	list, err := rec.Stop(ctx, x.p.secrets.masks.Text)
	var lines []string
	for _, f := range list {
		where, err := x.keep(ctx, f.Name, f.MediaType, bytes.NewReader(f.Data))
		if err != nil {
			lines = append(lines, fmt.Sprintf("%s can't be kept: %v", f.Name, err))
			continue
		}
		lines = append(lines, fmt.Sprintf("Recorded %s (%d bytes).", where, len(f.Data)))
	}
	if err != nil {
		lines = append(lines, "Some of it could not be made: "+err.Error())
	}
	if x.r.interrupted {
		lines = append(lines, "The plugin was started again meanwhile, so what was recorded before is lost.")
	}
	return lines, nil
}

// recorded adds what a call has done to the recording, if there is one. It fails nothing.
func (x *transfer) recorded(ctx context.Context, tab *target.Tab, names string, lines []string, begin time.Time) {
	rec := x.r.recorder
	if rec == nil {
		return
	}
	rec.Action(names, strings.Join(lines, "\n"), begin, time.Now())
	if tab != nil {
		_ = rec.Film(ctx, tab) // otherwise the tab is not in the video
	}
	if !rec.WantsPictures() || tab == nil {
		return
	}
	image, err := action.Picture(ctx, tab, false)
	if err != nil {
		return
	}
	if images, _ := x.p.pictures(ctx, &x.r.Session, tab, []action.Image{image}); len(images) == 1 {
		rec.Picture(image.Data, x.p.secrets.masks.Text(strings.Join(lines, " ")))
	}
}
