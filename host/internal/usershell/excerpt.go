package usershell

import (
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// keptEnd is the number of bytes kept of an output's beginning and of its end. No model reads more.
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
	if over := len(e.tail) - keptEnd; over > keptEnd { // shortened occasionally, not with each write
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
}

// part returns the output for the model, before the host truncates it to the model's limit.
func (e *excerpt) part() *contract.TextPart {
	tail := e.tail[max(len(e.tail)-keptEnd, 0):]
	kept := int64(len(e.head) + len(tail))
	return &contract.TextPart{
		Text: strings.ToValidUTF8(string(e.head)+string(tail), "\uFFFD"), AnnounceTruncation: true,
		TotalBytes: e.total, OmittedBytes: e.total - kept,
	}
}
