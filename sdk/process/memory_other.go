//go:build !unix

package process

import "os"

// mapMemory is never asked: descriptors don't travel here.
func mapMemory(*os.File) ([]byte, error) { return nil, nil }

func unmapMemory([]byte) error { return nil }
