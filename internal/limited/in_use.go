package limited

import (
	"errors"
	"fmt"
	"syscall"
)

// InUse adds to an error of listening, when another process has the address, which setting has the address. Other errors
// stay as they are.
func InUse(err error, setting string) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("%w: if this part is running already (weir status), stop it; otherwise write another address in %s", err, setting)
}
