//go:build !unix

package recovery

import (
	"errors"
	"os"
)

func makePipe(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func openPipe(string) *os.File { return nil }

func duplicate(*os.File) *os.File { return nil }
