package files

import (
	"os"
	"sync"

	"weir/pkg/collector/pipeline"
)

// ends has the open logs that were read to their ends, as they were then. A log that has grown since waits for the next
// beat, and its family does not know of it yet.
type ends struct {
	mu    sync.Mutex
	byLog map[*fileLog]end
}

type end struct {
	path string
	info os.FileInfo
}

// set notes a log that was read to its end; nil forgets it.
func (e *ends) set(log *fileLog, info os.FileInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byLog == nil {
		e.byLog = map[*fileLog]end{}
	}
	if delete(e.byLog, log); info != nil && !log.tape.Packed() && !log.gone {
		e.byLog[log] = end{log.path, info}
	}
}

// add adds to a status the bytes that were written behind the ends.
func (e *ends) add(status *pipeline.SourceStatus) {
	grown := map[string]int64{}
	e.mu.Lock()
	for _, one := range e.byLog {
		if now, err := os.Stat(one.path); err == nil && inodeOf(now) == inodeOf(one.info) && now.Size() > one.info.Size() {
			grown[one.path] = now.Size() - one.info.Size()
		}
	}
	e.mu.Unlock()
	for i := range status.Logs {
		if log := &status.Logs[i]; log.Lag == 0 && grown[log.Log] > 0 {
			log.Lag, status.CaughtUp = grown[log.Log], false
		}
	}
}
