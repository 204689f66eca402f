package main

import "os"

// endProcess exits with a status, or kills this process.
func endProcess(how string, code int) error {
	if how == "exit" {
		os.Exit(code)
	}
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	err = p.Kill()
	if os.Getpid() == 1 {
		// The first process of a namespace cannot kill itself. Exit with the status of a killed process instead.
		os.Exit(128 + 9)
	}
	return err
}
