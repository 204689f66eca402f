package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// shelf is where artifacts go.
type shelf struct {
	fail  error
	names []string
	data  map[string][]byte
}

func (s *shelf) put(_ context.Context, name, mediaType string, r io.Reader) (contract.ArtifactRef, error) {
	if s.fail != nil {
		return contract.ArtifactRef{}, s.fail
	}
	b, err := io.ReadAll(r)
	s.names = append(s.names, name)
	if s.data == nil {
		s.data = map[string][]byte{}
	}
	s.data[name] = b
	return contract.ArtifactRef{SHA256: "sha-" + name, SizeBytes: int64(len(b)), MediaType: mediaType, Name: name}, err
}

func fitFor(s *shelf, inline, message int64) (fitter, *[]string) {
	var complaints []string
	f := fitter{inline: inline, message: message, store: (&Env{}).PutArtifact, warn: func(msg string, _ ...any) { complaints = append(complaints, msg) }}
	if s != nil {
		f.store = s.put
	}
	return f, &complaints
}

func TestSmallResultsPassAsTheyAre(t *testing.T) {
	f, complaints := fitFor(nil, 1000, 1<<20)
	r := &Result{
		Parts: []Part{
			&TextPart{Text: "header", Fit: contract.FitVerbatim}, &MediaPart{MediaType: "image/png", Data: []byte("png"), Detail: "high"},
			&JSONPart{JSON: json.RawMessage(`{"a": 1}`)}, &ArtifactPart{Artifact: contract.ArtifactRef{SHA256: "x"}},
			nil, (*TextPart)(nil), (*JSONPart)(nil),
		},
		Structured: json.RawMessage(`[1]`), SessionID: "s", Item: &contract.OtherItem{Title: "t"},
	}
	m := f.fit(t.Context(), r)
	if len(m.GetParts()) != 4 || m.GetParts()[0].GetText().GetFit() != gantryv1.Fit_FIT_VERBATIM || string(m.GetParts()[1].GetMedia().GetData()) != "png" ||
		string(m.GetStructuredJson()) != "[1]" || m.GetSessionId() != "s" || m.GetItem() == nil || len(*complaints) > 0 {
		t.Errorf("result %v, complaints %v", m, *complaints)
	}
	if len(r.Parts) != 7 {
		t.Error("the handler's result was changed")
	}
}

func TestLongText(t *testing.T) {
	s := &shelf{}
	f, _ := fitFor(s, 101, 1<<20)
	text := strings.Repeat("é", 500)
	m := f.fit(t.Context(), &Result{Parts: []Part{&TextPart{Text: text, Fit: contract.FitBounded, Audience: contract.AudienceModel}}})
	got := m.GetParts()[0].GetText()
	if n := len(got.GetText()); n > 101 || n < 90 || !utf8.ValidString(got.GetText()) || got.GetTotalBytes() != 1000 ||
		got.GetOmittedBytes() != int64(1000-n) || got.GetFit() != gantryv1.Fit_FIT_UNSPECIFIED || m.GetParts()[0].GetAudience() != gantryv1.Audience_AUDIENCE_MODEL {
		t.Errorf("%d bytes: %v", n, m.GetParts()[0])
	}
	if a := m.GetParts()[1]; a.GetArtifact().GetName() != "output.txt" || a.GetAudience() != gantryv1.Audience_AUDIENCE_USER || string(s.data["output.txt"]) != text {
		t.Errorf("artifact %v", a)
	}
	// What the tool dropped itself is added up.
	m = f.fit(t.Context(), &Result{Parts: []Part{&TextPart{Text: strings.Repeat("x", 200), TotalBytes: 5000, OmittedBytes: 4800}}})
	if got := m.GetParts()[0].GetText(); got.GetTotalBytes() != 5000 || got.GetOmittedBytes() != 4900 {
		t.Errorf("total %d, omitted %d", got.GetTotalBytes(), got.GetOmittedBytes())
	}
	// Without a place for it, the ends are kept all the same.
	f, complaints := fitFor(nil, 101, 1<<20)
	if m := f.fit(t.Context(), &Result{Parts: []Part{&TextPart{Text: text}}}); len(m.GetParts()) != 1 || len(*complaints) != 1 {
		t.Errorf("parts %v, complaints %v", m.GetParts(), *complaints)
	}
}

func TestLargeMediaBecomesAnArtifact(t *testing.T) {
	s := &shelf{}
	f, _ := fitFor(s, 100, 1<<20)
	r := &Result{Parts: []Part{&MediaPart{MediaType: "image/png", Data: bytes.Repeat([]byte{1}, 500), Detail: "low"}}}
	if m := f.fit(t.Context(), r).GetParts()[0].GetMedia(); m.GetArtifact() != "sha-media" || len(m.GetData()) > 0 || m.GetDetail() != "low" {
		t.Errorf("media %v", m)
	}
	s.fail = errors.New("disk full")
	if text := f.fit(t.Context(), r).GetParts()[0].GetText().GetText(); !strings.Contains(text, "image/png of 500 bytes") || !strings.Contains(text, "disk full") {
		t.Errorf("text %q", text)
	}
}

func TestJSONParts(t *testing.T) {
	f, complaints := fitFor(&shelf{}, 100, 1<<20)
	big, _ := json.Marshal(strings.Repeat("x", 500))
	m := f.fit(t.Context(), &Result{
		Parts:      []Part{&JSONPart{JSON: big}, &JSONPart{JSON: json.RawMessage(`{"a":`)}},
		Structured: big,
	})
	if len(m.GetParts()) != 3 || m.GetParts()[0].GetText().GetOmittedBytes() == 0 || m.GetParts()[1].GetArtifact().GetName() != "output.json" ||
		m.GetParts()[2].GetText().GetText() != `{"a":` || len(m.GetStructuredJson()) > 0 || len(*complaints) != 2 {
		t.Errorf("result %v, complaints %v", m, *complaints)
	}
	f, complaints = fitFor(nil, 100, 1<<20)
	if m := f.fit(t.Context(), &Result{Structured: json.RawMessage(`{"a":`)}); len(m.GetStructuredJson()) > 0 || len(*complaints) != 1 {
		t.Errorf("result %v, complaints %v", m, *complaints)
	}
}

func TestVerbatimTextIsBounded(t *testing.T) {
	f, complaints := fitFor(nil, 1<<20, 1<<20)
	part := &TextPart{Text: strings.Repeat("x", 3000), Fit: contract.FitVerbatim}
	m := f.fit(t.Context(), &Result{Parts: []Part{part, part}})
	if m.GetParts()[0].GetText().GetFit() != gantryv1.Fit_FIT_VERBATIM || m.GetParts()[1].GetText().GetFit() != gantryv1.Fit_FIT_TRUNCATABLE ||
		part.Fit != contract.FitVerbatim || len(*complaints) != 1 {
		t.Errorf("parts %v, complaints %v", m.GetParts(), *complaints)
	}
}

// Whatever a handler returns, its result fits a message.
func TestResultFitsTheMessage(t *testing.T) {
	const limit = 256 << 10
	mb := strings.Repeat("x", 1<<20)
	raw, _ := json.Marshal(mb)
	for name, r := range map[string]*Result{
		"many texts":  {Parts: []Part{&TextPart{Text: mb[:100_000]}, &TextPart{Text: mb[:100_000]}, &TextPart{Text: mb[:100_000]}, &TextPart{Text: mb}}},
		"media":       {Parts: []Part{&MediaPart{Data: []byte(mb[:150_000])}, &MediaPart{Data: []byte(mb[:150_000])}}},
		"json":        {Parts: []Part{&JSONPart{JSON: raw}}, Structured: raw},
		"structured":  {Parts: []Part{&TextPart{Text: mb[:150_000]}}, Structured: raw[:0]},
		"item":        {Parts: []Part{&TextPart{Text: mb[:150_000]}}, Item: &contract.FileChangeItem{Changes: []contract.FileChange{{Path: "/a", Diff: mb}}}},
		"binary text": {Parts: []Part{&TextPart{Text: strings.Repeat("\xffa", 95_000)}}},
	} {
		for _, s := range []*shelf{nil, {}} {
			f, _ := fitFor(s, 200_000, limit)
			m := f.fit(t.Context(), r)
			if size := proto.Size(&gantryv1.CallResponse{Event: &gantryv1.CallResponse_Result{Result: m}}); size > limit {
				t.Errorf("%s: %d bytes, limit %d", name, size, limit)
			}
			if name == "item" && m.GetItem() != nil {
				t.Error("the item is still there")
			}
		}
	}
}
