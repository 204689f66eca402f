package extract

import (
	"regexp"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
)

// Markdown converts HTML.
func Markdown(html string) (string, error) {
	return converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorNone), table.WithNewlineBehavior(table.NewlineBehaviorPreserve),
			table.WithHeaderPromotion(true), table.WithSkipEmptyRows(true)),
	)).ConvertString(html)
}

var (
	escapes = regexp.MustCompile(`(?:%[0-9A-Fa-f]{2}){4,}`)
	blob    = regexp.MustCompile(`^\s*[{\[]\\?["'{\[].*[}\]]\s*$`)
	signs   = regexp.MustCompile(`[\pL\pN]`)
	blank   = regexp.MustCompile(`\n{3,}`)
)

// minBlob is the size from which a line of JSON is noise.
const minBlob = 200

// Clean removes what says nothing: runs of escapes of addresses, large lines of JSON, and lines without a letter or digit outside of code.
func Clean(markdown string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(markdown) {
		text := strings.TrimRight(line, " \t\r\n")
		fence := isFence(text)
		if fence {
			code = !code
		}
		switch {
		case code || fence || text == "" || tableRow(text):
		case len(text) >= minBlob && blob.MatchString(text):
			continue
		case !signs.MatchString(text) && !strings.ContainsAny(text, "✓✔✗✘★☆"):
			continue
		}
		b.WriteString(escapes.ReplaceAllString(text, ""))
		b.WriteByte('\n')
	}
	return strings.TrimSpace(blank.ReplaceAllString(b.String(), "\n\n")) + "\n"
}

func isFence(line string) bool {
	t := strings.TrimLeft(line, " ")
	return strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~")
}

func tableRow(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), "|") }
