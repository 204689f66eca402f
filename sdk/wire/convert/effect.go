package convert

import (
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// EffectToProto translates an effect; nil becomes [contract.UnknownEffect].
func EffectToProto(e contract.Effect) *gantryv1.Effect {
	switch e := e.(type) {
	case contract.ExecEffect:
		return &gantryv1.Effect{Kind: &gantryv1.Effect_Exec{Exec: &gantryv1.ExecEffect{
			Argv: texts(e.Argv), Cwd: text(e.Cwd), ShellText: text(e.ShellText), Tty: e.TTY,
		}}}
	case contract.WriteEffect:
		return &gantryv1.Effect{Kind: &gantryv1.Effect_Write{Write: &gantryv1.WriteEffect{Paths: texts(e.Paths)}}}
	case contract.ReadEffect:
		return &gantryv1.Effect{Kind: &gantryv1.Effect_Read{Read: &gantryv1.ReadEffect{Paths: texts(e.Paths)}}}
	case contract.NetworkEffect:
		return &gantryv1.Effect{Kind: &gantryv1.Effect_Network{Network: &gantryv1.NetworkEffect{
			Host: text(e.Host), Port: e.Port, Method: text(e.Method),
		}}}
	case contract.BrowserEffect:
		return &gantryv1.Effect{Kind: &gantryv1.Effect_Browser{Browser: &gantryv1.BrowserEffect{Origin: text(e.Origin)}}}
	case contract.SessionInputEffect:
		return &gantryv1.Effect{Kind: &gantryv1.Effect_SessionInput{SessionInput: &gantryv1.SessionInputEffect{
			SessionId: text(e.SessionID), Text: text(e.Text),
		}}}
	case contract.OtherEffect:
		return &gantryv1.Effect{Kind: &gantryv1.Effect_Other{Other: &gantryv1.OtherEffect{Label: text(e.Label)}}}
	}
	return &gantryv1.Effect{Kind: &gantryv1.Effect_Other{Other: &gantryv1.OtherEffect{Label: contract.UnknownEffect}}}
}

// EffectFromProto translates an effect; an unknown one becomes [contract.UnknownEffect].
func EffectFromProto(p *gantryv1.Effect) contract.Effect {
	switch e := p.GetKind().(type) {
	case *gantryv1.Effect_Exec:
		return contract.ExecEffect{
			Argv: e.Exec.GetArgv(), Cwd: e.Exec.GetCwd(), ShellText: e.Exec.GetShellText(), TTY: e.Exec.GetTty(),
		}
	case *gantryv1.Effect_Write:
		return contract.WriteEffect{Paths: e.Write.GetPaths()}
	case *gantryv1.Effect_Read:
		return contract.ReadEffect{Paths: e.Read.GetPaths()}
	case *gantryv1.Effect_Network:
		return contract.NetworkEffect{Host: e.Network.GetHost(), Port: e.Network.GetPort(), Method: e.Network.GetMethod()}
	case *gantryv1.Effect_Browser:
		return contract.BrowserEffect{Origin: e.Browser.GetOrigin()}
	case *gantryv1.Effect_SessionInput:
		return contract.SessionInputEffect{SessionID: e.SessionInput.GetSessionId(), Text: e.SessionInput.GetText()}
	case *gantryv1.Effect_Other:
		return contract.OtherEffect{Label: e.Other.GetLabel()}
	}
	return contract.OtherEffect{Label: contract.UnknownEffect}
}

// EffectsToProto translates effects.
func EffectsToProto(es []contract.Effect) []*gantryv1.Effect { return each(es, EffectToProto) }

// EffectsFromProto translates effects. There are as many as before.
func EffectsFromProto(ps []*gantryv1.Effect) []contract.Effect { return each(ps, EffectFromProto) }
