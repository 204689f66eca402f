// Package history is what a run in a browser has done, step by step, in a form that can be run again: its JSON, the identity of the elements that
// were acted on, how they are found again in a page that has changed, and the values that can be replaced.
//
// It owns: the shape of the file, hashes, rematching, variables and the removal of secrets. It is pure: it must not know how a page is read,
// how an action is carried out, or which model has chosen it.
//
// Start with [Load] and [Match].
package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// History is a run. Its JSON is that of the files of browser-use.
type History struct {
	Items []Item `json:"history"`
}

// Item is a step of a run.
type Item struct {
	Output       *Output   `json:"model_output"` // nil: the model gave none
	Results      []Result  `json:"result"`       // one for each action that was carried out
	State        State     `json:"state"`        // before the actions
	Metadata     *Metadata `json:"metadata,omitempty"`
	StateMessage string    `json:"state_message,omitempty"`
}

// Output is what a model wants to do.
type Output struct {
	Thinking    string   `json:"thinking,omitempty"`
	Evaluation  string   `json:"evaluation_previous_goal"`
	Memory      string   `json:"memory"`
	NextGoal    string   `json:"next_goal"`
	CurrentItem *int     `json:"current_plan_item,omitempty"`
	PlanUpdate  []string `json:"plan_update,omitempty"`
	Actions     []Action `json:"action"`
}

// Action is an action: an object with its name as the only key.
type Action struct {
	Name string
	Args json.RawMessage // an object
}

// MarshalJSON implements [json.Marshaler].
func (a Action) MarshalJSON() ([]byte, error) {
	args := a.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return json.Marshal(map[string]json.RawMessage{a.Name: args})
}

// UnmarshalJSON implements [json.Unmarshaler]. Names whose value is null are passed over: some writers list all actions.
func (a *Action) UnmarshalJSON(b []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	*a = Action{}
	for name, args := range all {
		if string(args) == "null" {
			continue
		}
		if a.Name != "" || name == "" {
			return errors.New("an action is not an object with exactly one name")
		}
		if args = bytes.TrimSpace(args); args[0] != '{' {
			return fmt.Errorf("the arguments of the action %q are no object", name)
		}
		a.Name, a.Args = name, args
	}
	if a.Name == "" {
		return errors.New("an action has no name")
	}
	return nil
}

// Index returns the number of the element that the action is about; 0: none.
func (a Action) Index() int {
	var in struct {
		Index *int `json:"index"`
	}
	if json.Unmarshal(a.Args, &in) != nil || in.Index == nil {
		return 0
	}
	return *in.Index
}

// WithIndex returns the action for another element.
func (a Action) WithIndex(n int) (Action, error) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal(a.Args, &args); err != nil {
		return a, err
	}
	args["index"] = json.RawMessage(strconv.Itoa(n))
	b, err := json.Marshal(args)
	return Action{a.Name, b}, err
}

// Result is the result of an action.
type Result struct {
	Done        bool            `json:"is_done,omitempty"`
	Success     *bool           `json:"success,omitempty"`
	Judgement   json.RawMessage `json:"judgement,omitempty"`
	Error       string          `json:"error,omitempty"`
	Attachments []string        `json:"attachments,omitempty"`
	Memory      string          `json:"long_term_memory,omitempty"`
	Content     string          `json:"extracted_content,omitempty"`
	Once        bool            `json:"include_extracted_content_only_once,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
}

// State is the page at the beginning of a step.
type State struct {
	URL        string     `json:"url"`
	Title      string     `json:"title"`
	Tabs       []Tab      `json:"tabs"`
	Screenshot *string    `json:"screenshot_path"`
	Interacted []*Element `json:"interacted_element"` // one for each action; nil: it was about no element
}

// Tab is a tab.
type Tab struct {
	URL    string  `json:"url"`
	Title  string  `json:"title"`
	ID     string  `json:"target_id"`
	Parent *string `json:"parent_target_id"`
}

// Metadata is when a step was made. Times are in seconds.
type Metadata struct {
	Start    float64  `json:"step_start_time"`
	End      float64  `json:"step_end_time"`
	Number   int      `json:"step_number"`
	Interval *float64 `json:"step_interval"`
}

// Hash is the hash of an element. Files have it as a number that may need all 64 bits.
type Hash uint64

// UnmarshalJSON implements [json.Unmarshaler].
func (h *Hash) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	n, err := strconv.ParseUint(string(bytes.Trim(b, `"`)), 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not the hash of an element", b)
	}
	*h = Hash(n)
	return nil
}

// Element is an element that was acted on.
type Element struct {
	NodeID        int               `json:"node_id"`
	BackendNodeID int               `json:"backend_node_id"`
	FrameID       *string           `json:"frame_id"`
	XPath         string            `json:"x_path"`
	ElementHash   Hash              `json:"element_hash"`
	StableHash    *Hash             `json:"stable_hash"`
	Bounds        *Bounds           `json:"bounds"`
	Attributes    map[string]string `json:"attributes"`
	Name          *string           `json:"ax_name"`
	NodeName      string            `json:"node_name"`
	NodeType      json.RawMessage   `json:"node_type"` // the number of the DOM, or its name
	NodeValue     string            `json:"node_value"`
}

// Bounds is where an element was, in CSS pixels.
type Bounds struct {
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
}

// maxSteps bounds a file. The longest runs have 500 steps.
const maxSteps = 5000

// Load reads a history.
func Load(b []byte) (*History, error) {
	var h *History
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, fmt.Errorf("this is not the history of a browser run: %w", err)
	}
	switch {
	case h == nil || h.Items == nil:
		return nil, errors.New("this is not the history of a browser run: it has no list \"history\"")
	case len(h.Items) > maxSteps:
		return nil, fmt.Errorf("the history has %d steps; at most %d can be run", len(h.Items), maxSteps)
	}
	return h, nil
}

// Save returns the JSON of a history.
func (h *History) Save() ([]byte, error) {
	x := *h
	if x.Items == nil {
		x.Items = []Item{}
	}
	return json.Marshal(x)
}

// Interacted returns the element that an action of the step was about; nil: it is not known.
func (i *Item) Interacted(action int) *Element {
	if action >= len(i.State.Interacted) {
		return nil
	}
	return i.State.Interacted[action]
}
