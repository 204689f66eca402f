//go:build !unix

package helper

import "os"

func openFile(path string) (*os.File, error) { return os.Open(path) }
