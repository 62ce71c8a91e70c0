package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"weir/internal/telemetry"
)

// lookAtFolders is the interval between two looks at the data folders.
const lookAtFolders = 500 * time.Millisecond

// A keptFile is a file that a part keeps open while it runs. When the file is missing or another one, the part's folder was
// deleted or replaced.
type keptFile struct {
	path    string
	renewed bool // the part makes its folder again by itself
	remedy  string
	opened  os.FileInfo // nil while the file has not been seen

	lost atomic.Pointer[string] // why it was lost at the last look; nil while it is there
}

// keeps makes the process watch a file that it has open. The file is remembered here and not at the first look, which comes
// later: a loss between the two would never be noticed.
func (p *Process) keeps(renewed bool, remedy string, path ...string) *keptFile {
	kept := &keptFile{path: filepath.Join(path...), renewed: renewed, remedy: remedy}
	kept.opened, _ = os.Stat(kept.path) // nil: see look
	p.kept = append(p.kept, kept)
	return kept
}

// watchFolders watches the kept files until the context is done. While one is lost the process is not ready, and the loss
// is logged at most once a minute.
func (p *Process) watchFolders(ctx context.Context) {
	faults := telemetry.NewFaults(p.Logger)
	look := time.NewTicker(lookAtFolders)
	defer look.Stop()
	for {
		lost := error(nil)
		for _, file := range p.kept {
			err := file.look()
			file.note(err)
			// One loss is enough to be not ready. All files are looked at, because each part reports its own.
			if err != nil && lost == nil {
				lost = err
			}
		}

		if lost != nil {
			faults.Note("folder", lost)
			p.Health.Lost(lost.Error())
		} else {
			faults.Over("folder")
			p.Health.Lost("")
		}

		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// note keeps the result of a look for the status.
func (k *keptFile) note(lost error) {
	if lost == nil {
		k.lost.Store(nil)
		return
	}

	why := lost.Error()
	k.lost.Store(&why)
}

// look returns an error when the file is not the one that was opened.
func (k *keptFile) look() error {
	found, err := os.Stat(k.path)
	switch {
	case k.opened == nil && k.renewed: // an enforcer without a list yet makes its folder later
		if err == nil {
			k.opened = found
		}
		return nil
	case err == nil && os.SameFile(found, k.opened):
		return nil
	// Reported this once, though the part goes on with the new one: the contents of the old one are lost.
	case err == nil && k.renewed:
		k.opened = found // from the next look on
	case err != nil && !os.IsNotExist(err):
		return nil // the part that uses the file reports such errors
	}

	return fmt.Errorf("%s was deleted or replaced while it was in use: %s", k.path, k.remedy)
}
