package hosttool

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
)

const permissionsName = "request_permissions"

// requestPermissions returns the tool that asks for permissions before the calls that need them.
func requestPermissions() Tool {
	return Tool{
		Label: LabelPrefix + "permissions",
		Descriptor: contract.Descriptor{
			Name: permissionsName, ReadOnly: true, Nesting: contract.NestingNever,
			Description: "Asks the user for permissions that the sandbox does not give: to read or write further folders, to reach the network. " +
				"What is granted holds for later calls, until the turn ends or as long as the thread runs; the answer says which. Ask for as little as the task needs.",
			InputSchema: json.RawMessage(`{"additionalProperties":false,"properties":{` +
				`"permissions":{"additionalProperties":false,"properties":{` +
				`"file_system":{"additionalProperties":false,"properties":{` +
				`"read":{"description":"Files and folders to read, absolute paths.","items":{"type":"string"},"type":["array","null"]},` +
				`"write":{"description":"Folders to write, absolute paths. They have to exist.","items":{"type":"string"},"type":["array","null"]}},"type":["object","null"]},` +
				`"network":{"additionalProperties":false,"properties":{"enabled":{"type":["boolean","null"]}},"type":["object","null"]}},"type":"object"},` +
				`"environment_id":{"type":["string","null"]},` +
				`"reason":{"description":"One plain sentence to the user that says what it is for.","type":["string","null"]}},"required":["permissions"],"type":"object"}`),
		},
		Offer:    offerPermissions,
		HostTool: orchestrate.HostTool{Backend: Func(runPermissions).Backend, Decides: true},
	}
}

// offerPermissions offers the tool even where every request is refused or unnecessary, which its answer says: tools that come and go
// with the settings of a thread would make the vendor read all of it again.
func offerPermissions(c Conditions) Offer {
	if c.Unattended || !c.AdditionalPermissions {
		return Absent
	}
	return Offered
}

// permissionSet is the JSON form of permissions in requests and answers; codex-compatible. A null part is empty.
type permissionSet struct {
	Network *networkPermission `json:"network"`
	Files   *filePermissions   `json:"file_system"`
}

type networkPermission struct {
	Enabled bool `json:"enabled"`
}

type filePermissions struct {
	Read  []string `json:"read"`
	Write []string `json:"write"`
}

func (s permissionSet) permissions() policy.Permissions {
	var p policy.Permissions
	if s.Network != nil {
		p.Network = s.Network.Enabled
	}
	if s.Files != nil {
		p.Read, p.Write = s.Files.Read, s.Files.Write
	}
	return p
}

func permissionSetOf(p policy.Permissions) permissionSet {
	var s permissionSet
	if p.Network {
		s.Network = &networkPermission{Enabled: true}
	}
	if len(p.Read)+len(p.Write) > 0 {
		s.Files = &filePermissions{Read: append([]string{}, p.Read...), Write: append([]string{}, p.Write...)}
	}
	return s
}

// Scopes of granted permissions, as the model reads them.
const (
	scopeTurn    = "turn"
	scopeSession = "session"
)

// runPermissions asks for permissions for later calls. A refusal is not an error: the answer grants nothing.
func runPermissions(ctx context.Context, c *orchestrate.HostCall, input contract.Input) (*contract.Result, error) {
	var in struct {
		Reason      string        `json:"reason"`
		Permissions permissionSet `json:"permissions"`
	}
	if err := json.Unmarshal(input.Arguments, &in); err != nil {
		return nil, registry.ArgumentsError(err)
	}
	wanted, err := c.Resolve(in.Permissions.permissions())
	switch {
	case err != nil:
		return nil, err
	case wanted.Empty():
		return nil, errors.New(permissionsName + " requires at least one permission")
	case c.Permits == nil:
		return granted(policy.Permissions{}, scopeTurn), nil
	}
	if all, session := c.Permits.Permitted(c.Turn); session.Covers(wanted) {
		return granted(wanted, scopeSession), nil
	} else if all.Covers(wanted) {
		return granted(wanted, scopeTurn), nil
	}
	var given policy.Permissions
	scope := scopeTurn
	d, decided := c.Decide(func(r *policy.Request) { r.PermissionRequest = true })
	switch d.Verdict {
	case policy.Run:
		given = wanted
	case policy.Ask:
		given, scope, err = askForPermissions(ctx, c, wanted, in.Reason, &decided)
	default:
		c.AddContext("No permissions were granted: " + d.Reason)
	}
	decided.Allowed = !given.Empty()
	if err := c.Publish(ctx, decided); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if d.Verdict == policy.Ask && !given.Empty() {
		c.Permits.Permit(c.Turn, given, scope == scopeSession)
	}
	return granted(given, scope), nil
}

// askForPermissions puts the request to hooks, the reviewer or a person, and records in decided who answered what.
func askForPermissions(ctx context.Context, c *orchestrate.HostCall, wanted policy.Permissions, why string, decided *event.CallDecided) (given policy.Permissions, scope string, err error) {
	answer, err := c.Ask(ctx, approval.Question{
		About: event.QuestionPermissions, Title: "permissions for this and later calls", Message: why, Reason: decided.Reason, Wanted: wanted.Effects(),
		Options: []string{approval.ApproveTurn, approval.ApproveSession, approval.Deny, approval.Abort},
	})
	decided.By, decided.Answer = answer.By, answer.Choice
	none := policy.Permissions{}
	if refused, ok := errors.AsType[*orchestrate.RefusedError](err); ok {
		c.AddContext("No permissions were granted: " + refused.Error())
		return none, scopeTurn, nil
	}
	if err != nil {
		return none, scopeTurn, err
	}
	agreed := answer.Choice == approval.Approve || answer.Choice == approval.ApproveTurn || answer.Choice == approval.ApproveSession
	given = wanted
	if len(answer.Data) > 0 {
		var some struct {
			Permissions *permissionSet `json:"permissions"`
			Review      bool           `json:"strict_auto_review"`
		}
		if json.Unmarshal(answer.Data, &some) != nil { // an answer that makes no sense is not an agreement
			return none, scopeTurn, nil
		}
		if some.Permissions != nil {
			given = wanted.Of(some.Permissions.permissions())
		}
		if some.Review && agreed {
			c.Permits.Review(c.Turn)
		}
	}
	switch {
	case answer.Choice == approval.ApproveSession:
		return given, scopeSession, nil
	case agreed:
		return given, scopeTurn, nil
	case answer.Message != "":
		c.AddContext(answer.Message)
	}
	return none, scopeTurn, nil
}

// granted is the answer that the model reads; codex-compatible.
func granted(p policy.Permissions, scope string) *contract.Result {
	b, err := json.Marshal(struct {
		Permissions permissionSet `json:"permissions"`
		Scope       string        `json:"scope"`
	}{permissionSetOf(p), scope})
	if err != nil { // strings only
		panic("hosttool: marshal permissions: " + err.Error())
	}
	return &contract.Result{Parts: []contract.Part{&contract.TextPart{Text: string(b), Fit: contract.FitBounded}}, Structured: b}
}
