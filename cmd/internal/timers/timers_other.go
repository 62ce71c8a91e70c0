//go:build !linux

// Package timers makes a process wake up less often.
package timers

// Coarsen does nothing on this system.
func Coarsen() {}
