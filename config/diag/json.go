package diag

import "encoding/json"

type posJSON struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

type rangeJSON struct {
	Filename string  `json:"filename"`
	Start    posJSON `json:"start"`
	End      posJSON `json:"end"`
}

type snippetJSON struct {
	Code           string `json:"code"`
	StartLine      int    `json:"start_line"`
	HighlightStart int    `json:"highlight_start_offset"`
	HighlightEnd   int    `json:"highlight_end_offset"`
}

type diagnosticJSON struct {
	Severity string       `json:"severity"`
	Summary  string       `json:"summary"`
	Detail   string       `json:"detail,omitempty"`
	Range    *rangeJSON   `json:"range,omitempty"`
	Snippet  *snippetJSON `json:"snippet,omitempty"`
	Plugin   string       `json:"plugin,omitempty"`
	Thread   string       `json:"thread,omitempty"`
	Call     string       `json:"call,omitempty"`
	Next     string       `json:"next,omitempty"`
}

// MarshalJSON writes {severity, summary, detail, range{filename,start{line,column,byte},end}, snippet{code, start_line,
// highlight_start_offset, highlight_end_offset}, plugin, thread, call, next}. Empty fields are omitted.
func (d Diagnostic) MarshalJSON() ([]byte, error) {
	out := diagnosticJSON{
		Severity: d.Severity.String(), Summary: d.Summary, Detail: d.Detail,
		Plugin: d.Plugin, Thread: d.Thread, Call: d.Call, Next: d.Next,
	}
	if !d.Range.IsZero() {
		out.Range = &rangeJSON{Filename: d.Range.File, Start: posJSON(d.Range.Start), End: posJSON(d.Range.End)}
	}
	if d.Snippet != nil {
		s := snippetJSON(*d.Snippet)
		out.Snippet = &s
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (d *Diagnostic) UnmarshalJSON(b []byte) error {
	var in diagnosticJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*d = Diagnostic{
		Severity: Error, Summary: in.Summary, Detail: in.Detail,
		Plugin: in.Plugin, Thread: in.Thread, Call: in.Call, Next: in.Next,
	}
	if in.Severity == Warning.String() {
		d.Severity = Warning
	}
	if in.Range != nil {
		d.Range = Range{File: in.Range.Filename, Start: Pos(in.Range.Start), End: Pos(in.Range.End)}
	}
	if in.Snippet != nil {
		s := Snippet(*in.Snippet)
		d.Snippet = &s
	}
	return nil
}
