package database

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Calls that come after the close has begun give back their places.
func TestCallsDuringACloseTakeNoPlace(t *testing.T) {
	in := &opening{guard: newGuard(vfs.NewMem()), calls: make(chan struct{}, maxCalls), closing: true}
	for range 2 * maxCalls {
		if _, err := call(context.Background(), in, func() (bool, error) { return true, nil }); err == nil || len(in.calls) > 0 {
			t.Fatalf("%d places are taken, %v", len(in.calls), err)
		}
	}
}
