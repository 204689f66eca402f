package script

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/chromedp/cdproto/cdp/jsonv2"

	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// inContext are the commands of the whole browser that take a context. Without one, they are for that with which the browser has started.
var inContext = []string{"Storage.clearCookies", "Storage.getCookies", "Storage.setCookies", "Target.createTarget"}

// ofPart keeps a command of the whole browser within the part of the agent whose script sends it: in its contexts, and to its tabs. What it
// opens becomes the part's, until done is called.
func ofPart(ctx context.Context, b *target.Browser, c *command) (done func(), err error) {
	done = func() {}
	if id := text(c.params["targetId"]); id != "" && overall(c.method) {
		if tab, _ := b.Find(id); tab == nil {
			if owner, ok := b.OwnerOf(id); ok {
				return nil, fmt.Errorf("%s is refused: target %s is that of the agent %s", c.method, id, owner)
			}
		}
	}
	if !slices.Contains(inContext, c.method) {
		return done, nil
	}
	given := text(c.params["browserContextId"])
	if given != "" && !b.Uses(given) {
		return nil, fmt.Errorf("%s is refused: context %q is another agent's", c.method, given)
	}
	if own := b.Context(); given == "" && own != "" {
		params := map[string]json.RawMessage{"browserContextId": json.RawMessage(fmt.Sprintf("%q", own))}
		for name, v := range c.params {
			if name != "browserContextId" {
				params[name] = v
			}
		}
		c.params = params
	}
	if c.method == "Target.createTarget" {
		return b.Opening(ctx)
	}
	return done, nil
}

// partly leaves out of a list of targets what belongs to other agents.
func partly(b *target.Browser, result jsonv2.Value) (jsonv2.Value, error) {
	var r struct {
		TargetInfos []json.RawMessage `json:"targetInfos"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return nil, err
	}
	r.TargetInfos = slices.DeleteFunc(r.TargetInfos, func(raw json.RawMessage) bool {
		var i struct {
			TargetID         string `json:"targetId"`
			Type             string `json:"type"`
			BrowserContextID string `json:"browserContextId"`
		}
		if json.Unmarshal(raw, &i) != nil {
			return true
		}
		if _, theirs := b.OwnerOf(i.TargetID); theirs {
			return true
		}
		return i.Type != "page" && !b.Uses(i.BrowserContextID)
	})
	return json.Marshal(r)
}
