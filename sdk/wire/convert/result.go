package convert

import (
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// PartToProto converts a part of a result; nil stays nil.
func PartToProto(p contract.Part) *gantryv1.ResultPart {
	q := &gantryv1.ResultPart{}
	var audience contract.Audience
	switch p := p.(type) {
	case *contract.TextPart:
		audience, q.Content = p.Audience, &gantryv1.ResultPart_Text{Text: textPartToProto(*p)}
	case *contract.MediaPart:
		m := mediaPartToProto(*p)
		switch {
		case p.Artifact != "":
			m.Source = &gantryv1.MediaPart_Artifact{Artifact: text(p.Artifact)}
		case len(p.Data) > 0:
			m.Source = &gantryv1.MediaPart_Data{Data: p.Data}
		}
		audience, q.Content = p.Audience, &gantryv1.ResultPart_Media{Media: m}
	case *contract.ArtifactPart:
		audience, q.Content = p.Audience, &gantryv1.ResultPart_Artifact{Artifact: ArtifactRefToProto(p.Artifact)}
	case *contract.JSONPart:
		audience, q.Content = p.Audience, &gantryv1.ResultPart_Json{Json: p.JSON}
	case *contract.SealedPart:
		audience, q.Content = p.Audience, &gantryv1.ResultPart_Sealed{Sealed: sealedPartToProto(*p)}
	default:
		return nil
	}
	q.Audience = enum[gantryv1.Audience](audience, contract.AudienceBoth)
	return q
}

// PartFromProto converts a part of a result; an unknown kind is nil.
func PartFromProto(p *gantryv1.ResultPart) contract.Part {
	audience := enum[contract.Audience](p.GetAudience(), gantryv1.Audience_AUDIENCE_BOTH)
	switch c := p.GetContent().(type) {
	case *gantryv1.ResultPart_Text:
		t := textPartFromProto(c.Text)
		t.Audience = audience
		return &t
	case *gantryv1.ResultPart_Media:
		m := mediaPartFromProto(c.Media)
		m.Audience = audience
		return &m
	case *gantryv1.ResultPart_Artifact:
		return &contract.ArtifactPart{Audience: audience, Artifact: ArtifactRefFromProto(c.Artifact)}
	case *gantryv1.ResultPart_Json:
		return &contract.JSONPart{Audience: audience, JSON: raw(c.Json)}
	case *gantryv1.ResultPart_Sealed:
		s := sealedPartFromProto(c.Sealed)
		s.Audience = audience
		return &s
	}
	return nil
}

// PartsToProto converts parts, leaving out nil ones.
func PartsToProto(ps []contract.Part) []*gantryv1.ResultPart {
	return eachKnown(ps, notNil(PartToProto))
}

// PartsFromProto converts parts, leaving out unknown ones.
func PartsFromProto(ps []*gantryv1.ResultPart) []contract.Part {
	return eachKnown(ps, notNil(PartFromProto))
}
