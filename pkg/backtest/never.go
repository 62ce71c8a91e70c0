package backtest

import "errors"

// A KeyList is a list of keys, addresses and prefixes, one a line; # begins a comment.
type KeyList struct{}

// ReadKeyList reads such a file.
func ReadKeyList(path string) (*KeyList, error) { return nil, errors.New("not yet") }
