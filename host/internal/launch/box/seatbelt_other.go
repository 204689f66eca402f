//go:build !darwin

package box

// bySeatbelt tells whether boxes are made by the system's own sandbox here.
const bySeatbelt = false
