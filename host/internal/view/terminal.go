package view

import (
	"bytes"

	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// terminal is the output of a terminal, as far as a person may see it.
type terminal struct {
	mask *redact.Mask
	read int64 // bytes that the plugin has sent, or dropped
}

// shown returns what is to be shown of the next output, which may be nothing. Its offset is in bytes of the plugin's output.
func (o *terminal) shown(next contract.ViewOutput) *contract.ViewOutput {
	data := next.Data
	if next.Offset != o.read { // the beginning is not there: a tail, or a gap
		o.mask.Reset()
		data = data[beginning(data):]
	}
	o.read = next.Offset + int64(len(next.Data))
	text := o.mask.Write(data)
	return &contract.ViewOutput{Offset: o.read - int64(o.mask.Held()+len(text)), Data: text}
}

// beginning returns where output whose first bytes are missing can begin: at a line or at an escape sequence, so that no sequence, no
// character and no secret is shown in part. If there is neither, it begins with a character.
func beginning(data []byte) int {
	if i := bytes.IndexAny(data, "\n\r\x1b"); i >= 0 {
		return len(data) - len(bytes.TrimLeft(data[i:], "\r\n"))
	}
	i := 0
	for i < min(len(data), 3) && data[i]&0xC0 == 0x80 {
		i++
	}
	return i
}
