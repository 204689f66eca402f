//go:build !linux && !darwin

package provider

func denyInspection() {}
