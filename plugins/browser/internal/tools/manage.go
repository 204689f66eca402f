package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/help"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const (
	statusDescription  = "Returns whether a browser runs, its tabs and what keeps them busy, and what it uses. It never waits for a page."
	recoverDescription = "Helps a browser that is stuck: ends the loading of a tab, reloads or closes it, or ends the browser, so that the next action starts a new one."
	helpDescription    = "Tells how to deal with something in the browser. Topics: "
	configDescription  = "Sets what pages see of the device and the place, which requests are blocked or answered here, and how dialogs are answered, in all tabs, also those to come."
)

type (
	statusArgs  struct{}
	recoverArgs struct {
		Action string `json:"action" enum:"stop_loading,reload,close,restart"`
		Tab    string `json:"tab,omitempty" jsonschema:"Name of a tab; default: the current one."`
	}
	helpArgs struct {
		Topic string `json:"topic"`
	}
	configArgs struct {
		Emulate *action.Emulate `json:"emulate,omitempty"`
		Block   *[]string       `json:"block,omitempty" jsonschema:"Patterns of addresses that are not requested: hosts, or URL patterns. Empty: none."`
		Mock    *[]action.Mock  `json:"mock,omitempty" jsonschema:"Answers to requests, in place of those of sites; the first that matches is taken. Empty: none."`
		Dialogs string          `json:"dialogs,omitempty" enum:"ask,accept,dismiss" jsonschema:"How confirmations and prompts are answered; ask: by handle_dialog."`
	}
)

// manageTools are the tools that are seldom needed.
func (p *browserPlugin) manageTools() []tool.Tool {
	return []tool.Tool{
		tool.New("browser_status", statusDescription, guarded(p, p.status), tool.Assess(known(p, p.assessStatus)), tool.ParallelSafe(), tool.Deferred(), tool.SearchText("browser tabs running memory stuck")),
		tool.New("browser_recover", recoverDescription, guarded(p, p.recover), tool.Assess(known(p, p.assessRecover)), tool.ParallelSafe(), tool.SerialGroup(group), tool.Deferred(), tool.SearchText("browser stuck hang crash restart close kill")),
		tool.New("browser_configure", configDescription, guarded(p, p.configure), tool.Assess(known(p, p.assessConfigure)), tool.ParallelSafe(), tool.SerialGroup(group), tool.Deferred(),
			tool.SearchText("browser viewport user agent mobile dark geolocation timezone locale offline block ads mock requests dialogs")),
		tool.New("browser_help", helpDescription+strings.Join(help.Topics(), ", ")+".", guarded(p, p.help), tool.Assess(known(p, p.assessHelp)), tool.ParallelSafe(), tool.Deferred()),
	}
}

var errNoBrowser = errors.New("there is no browser; browser_act with the action navigate starts one")

func (p *browserPlugin) assessStatus(context.Context, *tool.AssessCall, statusArgs) (*contract.Assessment, error) {
	return &contract.Assessment{ReadOnly: true, Summary: "Look at the browser", Item: &contract.BrowserItem{Action: "status"}}, nil
}

// status uses no lock of the thread: it has to answer while another call waits for a page.
func (p *browserPlugin) status(ctx context.Context, c *tool.Call, _ statusArgs) (*tool.Result, error) {
	r := p.thread(c.ThreadID()).running()
	if r == nil {
		return tool.Text("No browser runs. browser_act with the action navigate starts one."), nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Browser %s runs", r.id)
	if err := r.Browser.Ping(ctx); err != nil {
		fmt.Fprintf(&b, ", but does not answer (%v): browser_recover with restart ends it", err)
	}
	if s, err := r.cmd.Stat(ctx); err == nil {
		fmt.Fprintf(&b, ". Memory %d MiB, %d processes, %v of processor time", s.Memory>>20, s.PIDs, s.CPU.Round(time.Millisecond))
	}
	for _, t := range r.Browser.Tabs() {
		fmt.Fprintf(&b, "\nTab %s: %s", t.Name(), statusOf(t))
	}
	for _, x := range r.Browser.Others() {
		if n := len(x.Tabs()); n > 0 {
			fmt.Fprintf(&b, "\nThe agent %s has %d tabs in it.", x.Name(), n)
		}
	}
	return tool.Text(b.String()), nil
}

// statusOf describes a tab without asking it.
func statusOf(t *target.Tab) string {
	i := t.Info()
	out := short(i.URL, 300)
	if i.Title != "" {
		out += " - " + short(i.Title, 100)
	}
	switch {
	case i.Crashed:
		out += "; it has crashed: reload it"
	case i.Dialog != nil:
		out += "; " + (&target.DialogError{Dialog: *i.Dialog}).Error()
	case i.Loading:
		out += "; it is loading"
	}
	if n := len(t.Pending(time.Time{})); n > 0 {
		out += fmt.Sprintf("; %d requests are not answered", n)
	}
	return out
}

func (p *browserPlugin) assessRecover(_ context.Context, c *tool.AssessCall, in recoverArgs) (*contract.Assessment, error) {
	r := p.thread(c.ThreadID()).running()
	if r == nil {
		return &contract.Assessment{Early: contract.ErrorText("browser_recover failed: " + errNoBrowser.Error())}, nil
	}
	a := &contract.Assessment{Digest: "r1:" + in.Action + ":" + in.Tab + ":" + r.id, Summary: strings.TrimSpace(in.Action + " " + in.Tab), Item: &contract.BrowserItem{Action: in.Action}}
	if in.Action == "reload" {
		for _, t := range r.Browser.Tabs() {
			if o := origin(t.Info().URL); o != "" && (in.Tab == "" || t.Name() == strings.ToLower(in.Tab)) {
				a.Effects = append(a.Effects, contract.BrowserEffect{Origin: o})
			}
		}
	}
	return a, nil
}

// recoverTime limits what is asked of a tab that is stuck.
const recoverTime = 10 * time.Second

func (p *browserPlugin) recover(ctx context.Context, c *tool.Call, in recoverArgs) (*tool.Result, error) {
	const name = "browser_recover"
	t := p.thread(c.ThreadID())
	done, err := t.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	r := t.running()
	if r == nil {
		return failed(name, errNoBrowser), nil
	}
	if err := c.Started(&contract.BrowserItem{Action: in.Action}); err != nil {
		return nil, err
	}
	if in.Action == "restart" {
		if err := t.stop(ctx, r.id, ""); err != nil {
			return failed(name, err), nil
		}
		if p.endpoint != nil {
			return tool.Text("The tabs that were opened here are closed. The browser goes on; the next action connects to it again."), nil
		}
		return tool.Text("The browser has ended, with the tabs. The next action starts a new one."), nil
	}
	defer r.idle.Reset(p.config.Idle)
	defer r.sites.during(ctx, c)()
	tab, err := r.Tab(ctx, in.Tab)
	if err != nil {
		return failed(name, r.gone(err)), nil
	}
	text, err := unstick(ctx, r.Browser, tab, in.Action)
	if err != nil {
		return failed(name, r.gone(err)), nil
	}
	return tool.Text(text + "\nTab " + tab.Name() + ": " + statusOf(tab)), nil
}

// unstick helps a tab whose page may never answer.
func unstick(ctx context.Context, b *target.Browser, tab *target.Tab, how string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, recoverTime, fmt.Errorf("the tab does not answer within %v; close it, or restart the browser", recoverTime))
	defer cancel()
	var err error
	switch how {
	case "stop_loading":
		if _, err = protocol.Call(ctx, tab.Session, page.StopLoading, protocol.Empty{}); err == nil {
			err = tab.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return !i.Loading })
		}
		return "The tab no longer loads.", err
	case "reload":
		before := tab.Info().Document
		err = tab.Session.Post(page.CommandReload, page.ReloadParams{}) // answered only when no dialog is open
		for err == nil {
			var dialog bool
			err = tab.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool {
				dialog = i.Dialog != nil
				return dialog || i.Document != before && !i.Loading && !i.Crashed
			})
			if err != nil || !dialog {
				break
			}
			err = tab.Answer(ctx, false, "")
		}
		return "The page was loaded again.", err
	case "close":
		if len(b.Tabs()) == 1 { // the browser would end with its last tab
			if _, err := b.NewTab(ctx); err != nil {
				return "", err
			}
		}
		return "The tab is closed.", tab.Close(ctx)
	}
	return "", fmt.Errorf("unknown action %q: use stop_loading, reload, close or restart", how)
}

func (p *browserPlugin) assessHelp(_ context.Context, _ *tool.AssessCall, in helpArgs) (*contract.Assessment, error) {
	return &contract.Assessment{ReadOnly: true, Summary: "Read about " + short(in.Topic, 50), Item: &contract.BrowserItem{Action: "help"}}, nil
}

func (p *browserPlugin) help(_ context.Context, _ *tool.Call, in helpArgs) (*tool.Result, error) {
	text, err := help.Text(in.Topic)
	if err != nil {
		return failed("browser_help", err), nil
	}
	return tool.Text(text), nil
}

func (p *browserPlugin) assessConfigure(_ context.Context, c *tool.AssessCall, in configArgs) (*contract.Assessment, error) {
	if _, _, err := in.settings(); err != nil {
		return &contract.Assessment{Early: contract.ErrorText("browser_configure failed: " + err.Error())}, nil
	}
	if p.thread(c.ThreadID()).running() == nil {
		return &contract.Assessment{Early: contract.ErrorText("browser_configure failed: " + errNoBrowser.Error())}, nil
	}
	return &contract.Assessment{ReadOnly: true, Summary: "Configure the browser", Item: &contract.BrowserItem{Action: "configure"}}, nil
}

// settings returns what the arguments change.
func (in configArgs) settings() (out []target.Setting, what []string, err error) {
	if in.Emulate != nil {
		if out, what, err = in.Emulate.Settings(); err != nil {
			return nil, nil, err
		}
	}
	if in.Block != nil {
		if len(*in.Block) > 100 {
			return nil, nil, errors.New("block has more than 100 patterns")
		}
		patterns := []*network.BlockPattern{}
		for _, x := range *in.Block {
			if !strings.Contains(x, "://") {
				host, path, _ := strings.Cut(x, "/")
				x = "*://" + host + ":*/" + cmp.Or(path, "*")
			}
			patterns = append(patterns, &network.BlockPattern{URLPattern: x, Block: true})
		}
		out = append(out, target.Setting{Method: network.CommandSetBlockedURLs, Params: network.SetBlockedURLsParams{URLPatterns: patterns}})
		what = append(what, fmt.Sprintf("%d blocked patterns", len(patterns)))
	}
	if in.Mock != nil {
		mocks, err := action.Mocks(*in.Mock)
		if err != nil {
			return nil, nil, err
		}
		what = append(what, fmt.Sprintf("%d mocked answers", len(mocks)))
	}
	if in.Dialogs != "" {
		what = append(what, "dialogs: "+in.Dialogs)
	}
	if len(what) == 0 {
		return nil, nil, errors.New("give emulate, block, mock or dialogs")
	}
	return out, what, nil
}

func (p *browserPlugin) configure(ctx context.Context, c *tool.Call, in configArgs) (*tool.Result, error) {
	const name = "browser_configure"
	t := p.thread(c.ThreadID())
	done, err := t.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	r := t.running()
	if r == nil {
		return failed(name, errNoBrowser), nil
	}
	defer r.idle.Reset(p.config.Idle)
	settings, what, err := in.settings()
	if err == nil && in.Emulate != nil {
		err = in.Emulate.Permit(ctx, r.Browser)
	}
	if err == nil {
		err = r.Browser.Apply(ctx, settings)
	}
	if err == nil && in.Mock != nil {
		var mocks []target.Mock
		if mocks, err = action.Mocks(*in.Mock); err == nil {
			err = r.Browser.Mock(ctx, mocks)
		}
	}
	if err == nil && in.Dialogs != "" {
		r.Browser.AnswerDialogs(in.Dialogs)
	}
	if err != nil {
		return failed(name, r.gone(err)), nil
	}
	r.remember(ctx)
	return tool.Text("The browser now has " + strings.Join(what, ", ") + "."), nil
}
