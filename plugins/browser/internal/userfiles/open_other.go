//go:build !unix

package userfiles

import "os"

func openFile(path string) (*os.File, error) { return os.Open(path) }
