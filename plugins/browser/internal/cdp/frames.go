package cdp

import (
	"bufio"
	"errors"
)

// maxFrame is the maximum size of a frame, such as the screenshot of a long page.
const maxFrame = 128 << 20

// frames reads messages that end with a NUL.
type frames struct {
	r    *bufio.Reader
	most int  // maximum size of a frame, with its NUL; longer ones are skipped
	skip bool // the first frame is the end of one that another reader has begun
}

// next returns the next frame without its NUL. Frames that are empty or too long are left out, and what the end of the stream cuts off is lost.
func (f *frames) next() ([]byte, error) {
	for {
		var frame []byte
		long := false
		for {
			part, err := f.r.ReadSlice(0)
			if long = long || len(frame)+len(part) > f.most; long {
				frame = nil
			} else {
				frame = append(frame, part...)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, err
			}
		}
		skip := f.skip
		f.skip = false
		if !skip && len(frame) > 1 {
			return frame[:len(frame)-1], nil
		}
	}
}
