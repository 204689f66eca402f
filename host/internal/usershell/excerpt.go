package usershell

import (
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// keptEnd is how much is kept of an output's beginning, and of its end; more than any model reads of one.
const keptEnd = 512 << 10

// excerpt is an output without its middle.
type excerpt struct {
	head, tail []byte
	total      int64
}

func (e *excerpt) add(data []byte) {
	e.total += int64(len(data))
	if room := keptEnd - len(e.head); room > 0 {
		n := min(room, len(data))
		e.head, data = append(e.head, data[:n]...), data[n:]
	}
	e.tail = append(e.tail, data...)
	if over := len(e.tail) - keptEnd; over > keptEnd { // moved once in a while, not with each piece
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
}

// part is what the model reads of it, before the host cuts it to its measure.
func (e *excerpt) part() *contract.TextPart {
	tail := e.tail[max(len(e.tail)-keptEnd, 0):]
	kept := int64(len(e.head) + len(tail))
	return &contract.TextPart{
		Text: strings.ToValidUTF8(string(e.head)+string(tail), "\uFFFD"), AnnounceTruncation: true,
		TotalBytes: e.total, OmittedBytes: e.total - kept,
	}
}
