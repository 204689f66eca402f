//go:build !unix

package process

import "os"

// mapMemory is not called, because descriptors can't be passed.
func mapMemory(*os.File) ([]byte, error) { return nil, nil }

func unmapMemory([]byte) error { return nil }
