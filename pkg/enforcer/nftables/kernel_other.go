//go:build !linux

package nftables

import "errors"

func openKernel() (table, error) { return nil, errors.New("nftables: only Linux has it") }
