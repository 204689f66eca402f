//go:build !unix

package box

import (
	"errors"
	"os"
)

func lock(*os.File) error { return errors.ErrUnsupported }

func unlock(*os.File) {}
