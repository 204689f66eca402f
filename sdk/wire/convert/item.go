package convert

import (
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ItemToProto translates an item; nil stays nil.
func ItemToProto(i contract.Item) *gantryv1.Item {
	switch i := i.(type) {
	case *contract.CommandItem:
		return &gantryv1.Item{Kind: &gantryv1.Item_Command{Command: &gantryv1.CommandItem{
			Command: text(i.Command), Cwd: text(i.Cwd), ExitCode: i.ExitCode, SessionId: text(i.SessionID),
		}}}
	case *contract.FileChangeItem:
		return &gantryv1.Item{Kind: &gantryv1.Item_FileChange{FileChange: &gantryv1.FileChangeItem{
			Changes: each(i.Changes, changeToProto),
		}}}
	case *contract.MCPCallItem:
		return &gantryv1.Item{Kind: &gantryv1.Item_McpCall{McpCall: &gantryv1.McpCallItem{
			Server: text(i.Server), Tool: text(i.Tool), ArgumentsJson: i.Arguments,
		}}}
	case *contract.WebSearchItem:
		return &gantryv1.Item{Kind: &gantryv1.Item_WebSearch{WebSearch: &gantryv1.WebSearchItem{Query: text(i.Query)}}}
	case *contract.ImageItem:
		return &gantryv1.Item{Kind: &gantryv1.Item_Image{Image: &gantryv1.ImageItem{
			Path: text(i.Path), ArtifactSha256: text(i.ArtifactSHA256),
		}}}
	case *contract.BrowserItem:
		return &gantryv1.Item{Kind: &gantryv1.Item_Browser{Browser: &gantryv1.BrowserItem{
			Action: text(i.Action), Url: text(i.URL),
		}}}
	case *contract.OtherItem:
		return &gantryv1.Item{Kind: &gantryv1.Item_Other{Other: &gantryv1.OtherItem{
			Title: text(i.Title), DetailJson: i.Detail,
		}}}
	}
	return nil
}

// ItemFromProto translates an item; an unknown kind is nil.
func ItemFromProto(p *gantryv1.Item) contract.Item {
	switch i := p.GetKind().(type) {
	case *gantryv1.Item_Command:
		c := &contract.CommandItem{Command: i.Command.GetCommand(), Cwd: i.Command.GetCwd(), SessionID: i.Command.GetSessionId()}
		if i.Command != nil {
			c.ExitCode = i.Command.ExitCode
		}
		return c
	case *gantryv1.Item_FileChange:
		return &contract.FileChangeItem{Changes: each(i.FileChange.GetChanges(), changeFromProto)}
	case *gantryv1.Item_McpCall:
		return &contract.MCPCallItem{
			Server: i.McpCall.GetServer(), Tool: i.McpCall.GetTool(), Arguments: raw(i.McpCall.GetArgumentsJson()),
		}
	case *gantryv1.Item_WebSearch:
		return &contract.WebSearchItem{Query: i.WebSearch.GetQuery()}
	case *gantryv1.Item_Image:
		return &contract.ImageItem{Path: i.Image.GetPath(), ArtifactSHA256: i.Image.GetArtifactSha256()}
	case *gantryv1.Item_Browser:
		return &contract.BrowserItem{Action: i.Browser.GetAction(), URL: i.Browser.GetUrl()}
	case *gantryv1.Item_Other:
		return &contract.OtherItem{Title: i.Other.GetTitle(), Detail: raw(i.Other.GetDetailJson())}
	}
	return nil
}

func changeToProto(c contract.FileChange) *gantryv1.FileChange {
	return &gantryv1.FileChange{
		Path:         text(c.Path),
		Kind:         enum[contract.ChangeKind, gantryv1.ChangeKind](c.Kind, contract.ChangeDelete),
		Diff:         text(c.Diff),
		MovedFrom:    text(c.MovedFrom),
		BeforeSha256: text(c.BeforeSHA256),
		AfterSha256:  text(c.AfterSHA256),
	}
}

func changeFromProto(p *gantryv1.FileChange) contract.FileChange {
	return contract.FileChange{
		Path:         p.GetPath(),
		Kind:         enum[gantryv1.ChangeKind, contract.ChangeKind](p.GetKind(), gantryv1.ChangeKind_CHANGE_KIND_DELETE),
		Diff:         p.GetDiff(),
		MovedFrom:    p.GetMovedFrom(),
		BeforeSHA256: p.GetBeforeSha256(),
		AfterSHA256:  p.GetAfterSha256(),
	}
}
