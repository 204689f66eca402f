package userfiles

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/ledongthuc/pdf"
)

// maxText is the maximum size of the text of a PDF file.
const maxText = 1 << 20

// textOfPDF finds the text of a PDF file, page by page.
func textOfPDF(content io.Reader) answer {
	b, err := io.ReadAll(io.LimitReader(content, maxPDF+1))
	if err != nil {
		return refusal(err)
	}
	if len(b) > maxPDF {
		return answer{Refusal: fmt.Sprintf("it is larger than %d MB", maxPDF>>20)}
	}
	text, err := pdfText(b)
	if err != nil {
		return refusal(err)
	}
	return answer{Text: text}
}

// pdfText returns the text of the pages. A file that is not valid may break the library anywhere.
func pdfText(b []byte) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it is not a valid PDF file: %v", r)
		}
	}()
	r, err := pdf.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return "", fmt.Errorf("it is not a valid PDF file: %w", err)
	}
	var out strings.Builder
	for i := 1; i <= r.NumPage() && out.Len() < maxText; i++ {
		p := r.Page(i)
		if p.V.IsNull() {
			continue
		}
		rows, err := p.GetTextByRow()
		if err != nil {
			return "", fmt.Errorf("page %d can't be read: %w", i, err)
		}
		fmt.Fprintf(&out, "--- page %d ---\n", i)
		for _, row := range rows {
			for _, t := range row.Content {
				out.WriteString(t.S)
			}
			out.WriteByte('\n')
		}
	}
	text = strings.ToValidUTF8(out.String(), "")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return text, nil
}
