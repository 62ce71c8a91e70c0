package journal

import (
	"context"
	"fmt"
	"os"
	"time"

	"weir/internal/replace"
	"weir/internal/topic"
)

// run writes what is queued until the journal is closed. fault is that of writing the journal when it was opened.
func (j *Journal) run(fault error) {
	defer close(j.ended)
	if fault != nil && !j.renew(fault) {
		return
	}

	ticker := time.NewTicker(lazyEvery)
	defer ticker.Stop()
	for {
		closing := false
		select {
		case <-j.kick:
		case <-ticker.C:
		case <-j.closing:
			closing = true
		}

		j.commit()
		if closing {
			return
		}
	}
}

// commit writes all queued changes, however long it takes, and answers those who wait for it. The file must not get ahead
// of the log of hits: with notes, changes wait until that is synced.
func (j *Journal) commit() {
	j.mu.Lock()
	queue, asks := j.queue, j.asks
	j.queue, j.asks = nil, nil
	j.mu.Unlock()
	if len(queue) > 0 && j.notes != nil && !j.syncNotes() {
		j.mu.Lock()
		j.queue, j.asks = append(queue, j.queue...), append(asks, j.asks...)
		j.mu.Unlock()
		return
	}
	if len(queue) > 0 && !j.write(queue) {
		return
	}
	j.forgetWritten()
	for _, ask := range asks {
		ask(&j.state)
	}
}

// syncNotes syncs the log of hits; false when that fails, or takes too long.
func (j *Journal) syncNotes() bool {
	ctx, cancel := context.WithTimeout(context.Background(), syncPatience)
	defer cancel()
	if err := j.notes.Sync(ctx); err != nil {
		j.faults.Note("sync", fmt.Errorf("the journal waits for the log of hits: %w", err))
		return false
	}
	j.faults.Over("sync")
	return true
}

// write writes changes; ok is false when it gives up.
func (j *Journal) write(queue []change) (ok bool) {
	j.buffer = j.buffer[:0]
	urgent := j.notes != nil // nothing waits for it, but once a second it is on the disk
	for i := range queue {
		j.buffer = queue[i].append(j.buffer)
		j.state.apply(queue[i].entry)
		urgent = urgent || queue[i].noted != nil
	}

	if err := j.append(urgent); err != nil && !j.renew(err) {
		return false
	}
	for i := range queue {
		if noted := queue[i].noted; noted != nil {
			noted()
		}
		if queue[i].kind == entrySeen && j.notes != nil {
			j.written = append(j.written, topic.Note{Key: j.seenKey(queue[i].log.Source, queue[i].log.Position)})
		}
	}

	j.counted()
	return true
}

// append writes the buffer, and syncs the file if a stream waits for that.
func (j *Journal) append(urgent bool) error {
	if j.gone() {
		j.logger.Error("the collector's journal was deleted or replaced while it was in use: it is written again", "journal", j.path())
		return j.rewrite()
	}
	if j.bytes > max(compactBytes, 2*j.began) {
		return j.rewrite()
	}
	if err := j.disk.Write(j.file, j.buffer); err != nil {
		return err
	}

	j.bytes += int64(len(j.buffer))
	if !urgent {
		return nil
	}
	if err := j.disk.Sync(j.file); err != nil {
		return err
	}

	return j.folder.setMark(mark{j.ID, j.generation, j.bytes})
}

// gone reports that the journal was deleted or replaced, and its folder was not.
func (j *Journal) gone() bool {
	return !isAt(j.file, j.path()) && isAt(j.folder.lock, j.folder.in("lock"))
}

func isAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return true // writing to it reports that
	}
	there, err := os.Stat(path)
	return os.SameFile(opened, there) || err != nil && !os.IsNotExist(err)
}

// renew rewrites the journal until that succeeds. It gives up only when the collector closes.
func (j *Journal) renew(err error) bool {
	for pause := 50 * time.Millisecond; err != nil; pause = min(2*pause, 2*time.Second) {
		waits := ", which all files wait for"
		if j.notes != nil {
			waits = ""
		}
		err = fmt.Errorf("writing the journal%s: %w", waits, err)
		j.faults.Note("journal", err)
		j.broken(err.Error())
		select {
		case <-time.After(pause):
		case <-j.closing:
			return false
		}
		err = j.rewrite()
	}

	j.faults.Over("journal")
	j.broken("")
	return true
}

func (j *Journal) broken(fault string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fault = fault
}

// rewrite replaces the file by one with the state in memory, under the next generation.
func (j *Journal) rewrite() error {
	next := j.path() + ".next"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}

	// The old file stays until the new one is on the disk: a crash leaves one of them complete.
	data := j.state.append(header{j.ID, j.generation + 1}.bytes(j.version))
	err = j.disk.Write(file, data)
	if err == nil {
		err = j.disk.Sync(file)
	}
	if err == nil {
		err = os.Rename(next, j.path())
	}
	if err == nil {
		err = replace.SyncFolder(j.folder.path)
	}
	if err != nil {
		file.Close()
		os.Remove(next)
		return err
	}

	if j.file != nil {
		j.file.Close()
	}
	j.file, j.bytes, j.began = file, int64(len(data)), int64(len(data))
	j.generation++
	return j.folder.setMark(mark{j.ID, j.generation, j.bytes})
}

func (j *Journal) counted() {
	n := 0
	for _, cuts := range j.state.cuts {
		n += len(cuts)
	}
	j.mu.Lock()
	j.count = n
	j.mu.Unlock()
	outstanding, _ := j.Status()
	j.gauge.Set(float64(outstanding))
}
