package convert

import (
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// PartToProto translates a part of a result; nil stays nil.
func PartToProto(p contract.Part) *gantryv1.ResultPart {
	switch p := p.(type) {
	case *contract.TextPart:
		return &gantryv1.ResultPart{Audience: audienceToProto(p.Audience), Content: &gantryv1.ResultPart_Text{Text: &gantryv1.TextPart{
			Text:               text(p.Text),
			Fit:                enum[contract.Fit, gantryv1.Fit](p.Fit, contract.FitTruncatable),
			MaxTokens:          p.MaxTokens,
			TotalBytes:         p.TotalBytes,
			OmittedBytes:       p.OmittedBytes,
			AnnounceTruncation: p.AnnounceTruncation,
		}}}
	case *contract.MediaPart:
		m := &gantryv1.MediaPart{MediaType: text(p.MediaType), Detail: text(p.Detail)}
		switch {
		case p.Artifact != "":
			m.Source = &gantryv1.MediaPart_Artifact{Artifact: text(p.Artifact)}
		case len(p.Data) > 0:
			m.Source = &gantryv1.MediaPart_Data{Data: p.Data}
		}
		return &gantryv1.ResultPart{Audience: audienceToProto(p.Audience), Content: &gantryv1.ResultPart_Media{Media: m}}
	case *contract.ArtifactPart:
		return &gantryv1.ResultPart{Audience: audienceToProto(p.Audience), Content: &gantryv1.ResultPart_Artifact{
			Artifact: ArtifactRefToProto(p.Artifact),
		}}
	case *contract.JSONPart:
		return &gantryv1.ResultPart{Audience: audienceToProto(p.Audience), Content: &gantryv1.ResultPart_Json{Json: p.JSON}}
	case *contract.SealedPart:
		return &gantryv1.ResultPart{Audience: audienceToProto(p.Audience), Content: &gantryv1.ResultPart_Sealed{
			Sealed: &gantryv1.SealedPart{Namespace: text(p.Namespace), Data: text(p.Data)},
		}}
	}
	return nil
}

// PartFromProto translates a part of a result; an unknown kind is nil.
func PartFromProto(p *gantryv1.ResultPart) contract.Part {
	a := enum[gantryv1.Audience, contract.Audience](p.GetAudience(), gantryv1.Audience_AUDIENCE_BOTH)
	switch c := p.GetContent().(type) {
	case *gantryv1.ResultPart_Text:
		t := c.Text
		if t == nil {
			t = &gantryv1.TextPart{}
		}
		return &contract.TextPart{
			Audience:           a,
			Text:               t.GetText(),
			Fit:                enum[gantryv1.Fit, contract.Fit](t.GetFit(), gantryv1.Fit_FIT_TRUNCATABLE),
			MaxTokens:          t.MaxTokens,
			TotalBytes:         t.GetTotalBytes(),
			OmittedBytes:       t.GetOmittedBytes(),
			AnnounceTruncation: t.GetAnnounceTruncation(),
		}
	case *gantryv1.ResultPart_Media:
		return &contract.MediaPart{
			Audience: a, MediaType: c.Media.GetMediaType(), Data: raw(c.Media.GetData()), Artifact: c.Media.GetArtifact(),
			Detail: c.Media.GetDetail(),
		}
	case *gantryv1.ResultPart_Artifact:
		return &contract.ArtifactPart{Audience: a, Artifact: ArtifactRefFromProto(c.Artifact)}
	case *gantryv1.ResultPart_Json:
		return &contract.JSONPart{Audience: a, JSON: raw(c.Json)}
	case *gantryv1.ResultPart_Sealed:
		return &contract.SealedPart{Audience: a, Namespace: c.Sealed.GetNamespace(), Data: c.Sealed.GetData()}
	}
	return nil
}

func audienceToProto(a contract.Audience) gantryv1.Audience {
	return enum[contract.Audience, gantryv1.Audience](a, contract.AudienceBoth)
}

// PartsToProto translates parts and leaves nil ones out.
func PartsToProto(ps []contract.Part) []*gantryv1.ResultPart {
	return eachKnown(ps, func(p contract.Part) (*gantryv1.ResultPart, bool) {
		q := PartToProto(p)
		return q, q != nil
	})
}

// PartsFromProto translates parts and leaves unknown ones out.
func PartsFromProto(ps []*gantryv1.ResultPart) []contract.Part {
	return eachKnown(ps, func(p *gantryv1.ResultPart) (contract.Part, bool) {
		q := PartFromProto(p)
		return q, q != nil
	})
}

// ArtifactRefToProto translates a reference.
func ArtifactRefToProto(r contract.ArtifactRef) *gantryv1.ArtifactRef {
	return &gantryv1.ArtifactRef{Sha256: text(r.SHA256), SizeBytes: r.SizeBytes, MediaType: text(r.MediaType), Name: text(r.Name)}
}

// ArtifactRefFromProto translates a reference.
func ArtifactRefFromProto(p *gantryv1.ArtifactRef) contract.ArtifactRef {
	return contract.ArtifactRef{SHA256: p.GetSha256(), SizeBytes: p.GetSizeBytes(), MediaType: p.GetMediaType(), Name: p.GetName()}
}

// ResultToProto translates a result.
func ResultToProto(r *contract.Result) *gantryv1.CallResult {
	if r == nil {
		return nil
	}
	return &gantryv1.CallResult{
		Parts:          PartsToProto(r.Parts),
		IsError:        r.IsError,
		Item:           ItemToProto(r.Item),
		SessionId:      text(r.SessionID),
		SandboxDenied:  r.SandboxDenied,
		StructuredJson: r.Structured,
		Aborted:        r.Aborted,
	}
}

// ResultFromProto translates a result.
func ResultFromProto(p *gantryv1.CallResult) *contract.Result {
	if p == nil {
		return nil
	}
	return &contract.Result{
		Parts:         PartsFromProto(p.GetParts()),
		IsError:       p.GetIsError(),
		Item:          ItemFromProto(p.GetItem()),
		SessionID:     p.GetSessionId(),
		SandboxDenied: p.GetSandboxDenied(),
		Structured:    raw(p.GetStructuredJson()),
		Aborted:       p.GetAborted(),
	}
}
