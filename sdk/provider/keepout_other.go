//go:build !linux

package provider

func keepOut() {}
