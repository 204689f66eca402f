//go:build !unix

package main

import (
	"fmt"
	"os"
	"runtime"
)

// endProcess ends this process as a script asked for.
func endProcess(how string, code int) error {
	switch how {
	case "exit":
		os.Exit(code)
	case "kill":
		p, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		return p.Kill()
	}
	return fmt.Errorf("a process can't stop itself on %s; run the script on linux, or use how = \"hang\"", runtime.GOOS)
}
