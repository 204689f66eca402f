//go:build !unix

package recovery

import (
	"errors"
	"os"
)

func lock(*os.File) error { return errors.ErrUnsupported }

func Unlock(*os.File) {}
