//go:build !unix

package profile

import (
	"errors"
	"os"
)

// share fails: browsers run on unix systems only.
func share(*os.File) error { return errors.ErrUnsupported }

// lock reports false: no folder was made here.
func lock(*os.File) bool { return false }
