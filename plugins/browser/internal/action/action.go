package action

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// Action is one action: exactly one field is set.
type Action struct {
	Navigate        *Navigate     `json:"navigate,omitempty"`
	Search          *Search       `json:"search,omitempty"`
	GoBack          *None         `json:"go_back,omitempty"`
	GoForward       *None         `json:"go_forward,omitempty"`
	Reload          *None         `json:"reload,omitempty"`
	Wait            *Wait         `json:"wait,omitempty"`
	WaitFor         *WaitFor      `json:"wait_for,omitempty"`
	Click           *Click        `json:"click,omitempty"`
	Hover           *Index        `json:"hover,omitempty"`
	Drag            *Drag         `json:"drag,omitempty"`
	Input           *Input        `json:"input,omitempty"`
	FillForm        *FillForm     `json:"fill_form,omitempty"`
	SendKeys        *SendKeys     `json:"send_keys,omitempty"`
	Scroll          *Scroll       `json:"scroll,omitempty"`
	FindText        *Text         `json:"find_text,omitempty"`
	SearchPage      *SearchPage   `json:"search_page,omitempty"`
	FindElements    *FindElements `json:"find_elements,omitempty"`
	DropdownOptions *Index        `json:"dropdown_options,omitempty"`
	SelectDropdown  *Select       `json:"select_dropdown,omitempty"`
	Switch          *TabName      `json:"switch,omitempty"`
	Close           *TabName      `json:"close,omitempty"`
	HandOver        *HandOver     `json:"hand_over,omitempty"`
	Evaluate        *Evaluate     `json:"evaluate,omitempty"`
	HandleDialog    *HandleDialog `json:"handle_dialog,omitempty"`
	Screenshot      *Screenshot   `json:"screenshot,omitempty"`
	Console         *Console      `json:"console_messages,omitempty"`
	Requests        *Requests     `json:"network_requests,omitempty"`
	Emulate         *Emulate      `json:"emulate,omitempty"`
	UploadFile      *Files        `json:"upload_file,omitempty"`
	DropFiles       *Files        `json:"drop_files,omitempty"`
	SaveAsPDF       *SaveAsPDF    `json:"save_as_pdf,omitempty"`
	AskUser         *AskUser      `json:"ask_user,omitempty"`
}

// The arguments of the actions.
type (
	None     struct{}
	Navigate struct {
		URL    string `json:"url"`
		NewTab bool   `json:"new_tab,omitempty"`
	}
	Search struct {
		Query  string `json:"query"`
		Engine string `json:"engine,omitempty" enum:"duckduckgo,google,bing"`
	}
	Wait struct {
		Seconds float64 `json:"seconds,omitempty"`
	}
	WaitFor struct {
		Text    string  `json:"text,omitempty"`
		Gone    string  `json:"gone,omitempty" jsonschema:"text that disappears"`
		URL     string  `json:"url,omitempty" jsonschema:"part of the address"`
		Seconds float64 `json:"seconds,omitempty" jsonschema:"at most; default 10"`
	}
	Click struct {
		Index  int      `json:"index,omitempty" jsonschema:"or both coordinates"`
		X      *float64 `json:"coordinate_x,omitempty"`
		Y      *float64 `json:"coordinate_y,omitempty"`
		Button string   `json:"button,omitempty" enum:"left,right,middle"`
		Count  int      `json:"count,omitempty" jsonschema:"2: double click"`
		Force  bool     `json:"force,omitempty" jsonschema:"though covered"`
	}
	Index struct {
		Index int `json:"index"`
	}
	Drag struct {
		From int `json:"from"`
		To   int `json:"to"`
	}
	Input struct {
		Index int    `json:"index"`
		Text  string `json:"text"`
		Clear *bool  `json:"clear,omitempty" jsonschema:"default true"`
	}
	FillForm struct {
		Fields []Input `json:"fields"`
	}
	SendKeys struct {
		Keys string `json:"keys" jsonschema:"Enter, Control+a, or text"`
	}
	Scroll struct {
		Down  *bool   `json:"down,omitempty" jsonschema:"default true"`
		Pages float64 `json:"pages,omitempty" jsonschema:"default 1"`
		Index int     `json:"index,omitempty" jsonschema:"default: the page"`
	}
	Text struct {
		Text string `json:"text"`
	}
	SearchPage struct {
		Pattern       string `json:"pattern"`
		Regex         bool   `json:"regex,omitempty"`
		CaseSensitive bool   `json:"case_sensitive,omitempty"`
		ContextChars  int    `json:"context_chars,omitempty"`
		Scope         string `json:"css_scope,omitempty"`
		MaxResults    int    `json:"max_results,omitempty"`
	}
	FindElements struct {
		Selector    string   `json:"selector"`
		Attributes  []string `json:"attributes,omitempty"`
		MaxResults  int      `json:"max_results,omitempty"`
		IncludeText *bool    `json:"include_text,omitempty"`
	}
	Select struct {
		Index int      `json:"index"`
		Text  string   `json:"text,omitempty"`
		Texts []string `json:"texts,omitempty" jsonschema:"several"`
	}
	TabName struct {
		TabID string `json:"tab_id"`
	}
	HandOver struct {
		To string `json:"to" jsonschema:"agent"`
	}
	Evaluate struct {
		Code string `json:"code"`
	}
	HandleDialog struct {
		Accept bool   `json:"accept"`
		Text   string `json:"text,omitempty"`
	}
	Screenshot struct {
		FullPage bool `json:"full_page,omitempty"`
	}
)

// doer is an action with its arguments.
type doer interface {
	do(ctx context.Context, r *run) (string, error)
}

// Named is an action with its name.
type Named struct {
	Name string
	Args any
	do   func(ctx context.Context, r *run) (string, error)
}

// URL returns the address that the action opens; "": it opens none.
func (n Named) URL() string {
	switch a := n.Args.(type) {
	case *Navigate:
		return a.URL
	case *Search:
		u, _ := a.address() // otherwise the action fails
		return u
	}
	return ""
}

// MaxActions is the maximum number of actions of a sequence.
const MaxActions = 20

// Names returns the names of all actions.
func Names() []string {
	var out []string
	for f := range reflect.TypeFor[Action]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// Parse returns the actions of a sequence.
func Parse(list []Action) ([]Named, error) {
	if len(list) == 0 || len(list) > MaxActions {
		return nil, fmt.Errorf("there are %d actions; give 1 to %d", len(list), MaxActions)
	}
	var out []Named
	for i, a := range list {
		v := reflect.ValueOf(a)
		var found []Named
		for j, name := range Names() {
			if f := v.Field(j); !f.IsNil() {
				n := Named{Name: name, Args: f.Interface()}
				switch a := n.Args.(type) {
				case doer:
					n.do = a.do
				case *Index:
					n.do = func(ctx context.Context, r *run) (string, error) { return indexed[name](r, ctx, a.Index) }
				case *Files:
					n.do = func(ctx context.Context, r *run) (string, error) { return withFiles[name](r, ctx, *a) }
				case *TabName:
					n.do = func(ctx context.Context, r *run) (string, error) { return tabbed[name](r, ctx, a.TabID) }
				default:
					n.do = simple[name]
				}
				found = append(found, n)
			}
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("action %d has %d names; each action is an object with exactly one of %s", i+1, len(found), strings.Join(Names(), ", "))
		}
		out = append(out, found[0])
	}
	return out, nil
}

// The actions whose arguments don't tell them apart.
var (
	indexed = map[string]func(*run, context.Context, int) (string, error){"hover": (*run).hover, "dropdown_options": (*run).options}
	tabbed  = map[string]func(*run, context.Context, string) (string, error){"switch": (*run).switchTo, "close": (*run).close}
)

// simple are the actions without arguments.
var simple = map[string]func(ctx context.Context, r *run) (string, error){
	"go_back":    func(ctx context.Context, r *run) (string, error) { return r.history(ctx, -1) },
	"go_forward": func(ctx context.Context, r *run) (string, error) { return r.history(ctx, 1) },
	"reload": func(ctx context.Context, r *run) (string, error) {
		r.navigates, r.ends = true, true
		return "Reloaded the page", r.navigation(ctx, func(ctx context.Context) (started, error) {
			_, err := protocol.Call(ctx, r.tab.Session, page.Reload, page.ReloadParams{})
			return started{other: true}, err
		})
	},
}

// run is the execution of one action.
type run struct {
	s         *Session
	tab       *target.Tab
	still     bool // it can't have changed anything
	ends      bool // what follows was written for another page
	navigates bool // the change of the address is its purpose
	closes    bool
	images    []Image
}

// within runs commands that a dialog can hold up. If one opens, that is the action's success: the outcome tells of it.
func (r *run) within(ctx context.Context, f func(ctx context.Context) error) error {
	err := r.tab.Do(ctx, f)
	if _, ok := errors.AsType[*target.DialogError](err); ok {
		return nil
	}
	return err
}

// started is how a navigation has begun.
type started struct {
	other  bool   // it leads to another document
	loader string // that document, see [target.Info]; "": unknown
}

// navigation runs a navigation and waits until the document is another one, unless it stays the same. The first document of a tab, which is
// empty, may still be on its way when its first navigation begins; it is not taken for the one that was asked for.
func (r *run) navigation(ctx context.Context, start func(ctx context.Context) (started, error)) error {
	before := r.tab.Info()
	do := r.tab.Do
	if before.Crashed { // only a navigation helps, so the crash must not end it
		do = func(ctx context.Context, f func(ctx context.Context) error) error { return f(ctx) }
	}
	return do(ctx, func(ctx context.Context) error {
		s, err := start(ctx)
		if err != nil || !s.other {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, navigationTime, fmt.Errorf("the page has not answered within %v", navigationTime))
		defer cancel()
		return r.tab.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool {
			return i.Closed || !i.Crashed && i.Document != before.Document && (s.loader == "" || i.Document == s.loader || i.URL != "about:blank")
		})
	})
}
