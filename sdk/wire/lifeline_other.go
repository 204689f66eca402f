//go:build !unix

package wire

import (
	"errors"
	"fmt"
	"os"
)

func openLifeline(func(string) (string, bool)) (*os.File, error) {
	return nil, fmt.Errorf("open lifeline: %w on this platform: plugins run on unix systems only so far", errors.ErrUnsupported)
}
