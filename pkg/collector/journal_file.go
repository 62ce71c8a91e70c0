package collector

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/kafka"
	"weir/internal/telemetry"
)

const (
	lazyEvery    = time.Second
	compactBytes = 32 << 20 // a journal longer than this, and than twice its first size, is rewritten
)

// A fileJournal is the one journal of all files of a process, in a file that it appends to. One goroutine writes it:
// all changes that have queued while it waited for the disk go with one write and one sync (a group commit). Changes
// that a crash may lose, such as that Kafka has a cut, are written with the next cut or within a second.
//
// The journal keeps the content of the file in memory: the state of every log, and the cuts that Kafka may not have.
// When a write fails, the content of the file is unknown; the journal then rewrites it from memory until that
// succeeds, and cuts and their streams wait meanwhile.
type fileJournal struct {
	folder *folder
	logger *slog.Logger
	faults *telemetry.Faults
	gauge  prometheus.Gauge // of outstanding cuts
	id     string           // of the collector: random, made with the journal
	fresh  bool             // there was no journal

	mu      sync.Mutex
	queue   []change
	asks    []func(*state) // answered once the changes queued before them are written
	fault   string
	count   int // of outstanding cuts
	kick    chan struct{}
	closing chan struct{}
	ended   chan struct{}

	// Of the goroutine:
	file       *os.File
	bytes      int64 // of the file, all of them sound
	began      int64 // its first size in bytes
	generation uint64
	state      state
	buffer     []byte
	disk       disk
}

// A disk writes and syncs files; tests replace it by one that fails.
type disk struct {
	write func(*os.File, []byte) error
	sync  func(*os.File) error
}

var realDisk = disk{
	write: func(file *os.File, b []byte) error { _, err := file.Write(b); return err },
	sync:  datasync,
}

// A change is one thing for the journal to write. A change with a stream is a cut that the stream waits for.
type change struct {
	entry
	stream *stream
}

// openJournal reads the journal of a folder and starts its goroutine; close ends it.
func openJournal(f *folder, logger *slog.Logger, gauge prometheus.Gauge) (*fileJournal, error) {
	j := &fileJournal{
		folder: f, logger: logger, faults: telemetry.NewFaults(logger), gauge: gauge, state: newState(),
		kick: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
		disk: f.disk,
	}

	if err := j.read(); err != nil {
		return nil, err
	}
	if err := j.rewrite(); err != nil {
		return nil, fmt.Errorf("writing the journal: %w", err)
	}

	j.counted()
	go j.run()
	return j, nil
}

func (j *fileJournal) path() string { return j.folder.in("journal") }

// read loads the file, or makes a new identity where there is none.
func (j *fileJournal) read() error {
	data, err := os.ReadFile(j.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the journal: %w", err)
	}

	// The mark outlives the journal: it shows whether the journal is gone or went back.
	mark := j.folder.mark()
	header, sound, err := j.state.read(data)
	if err != nil {
		return fmt.Errorf("reading the journal %s: %w", j.path(), err)
	}

	if header == nil {
		j.id, j.fresh = newID(), true
		if mark.Collector != "" {
			j.logger.Error("the collector's journal is gone: a new collector begins, which reads all files again as configured; requests that were counted may be counted twice",
				"journal", j.path(), "was", mark.Collector, "is", j.id)
		}
		return nil
	}

	j.id, j.generation = header.collector, header.generation
	if mark.Collector == j.id && (mark.Generation > j.generation || mark.Generation == j.generation && mark.Bytes > sound) {
		j.logger.Error("the collector's journal went back: it is shorter than it was. Files are read again from where it ends; the aggregator reports batches that it has counted already as conflicts, and does not count them twice",
			"journal", j.path(), "bytes", sound, "written", mark.Bytes, "generation", j.generation, "generation written", mark.Generation)
	} else if torn := int64(len(data)) - sound; torn > 0 {
		j.logger.Info("the journal's last entry was incomplete; it is removed", "bytes", torn)
	}

	return nil
}

func newID() string {
	id := make([]byte, 8)
	rand.Read(id)
	return hex.EncodeToString(id)
}

// note implements journal.
func (j *fileJournal) note(s *stream, c *cut) {
	j.enqueue(change{entry{kind: entryCut, cut: c}, s}, true)
}

// done implements journal.
func (j *fileJournal) done(_ *stream, c *cut) {
	j.enqueue(change{entry: entry{kind: entryDone, log: logState{source: c.source, position: c.to}}}, false)
}

// set keeps the state of a log that is part of no cut; forget removes it.
func (j *fileJournal) set(log logState) {
	j.enqueue(change{entry: entry{kind: entryLog, log: log}}, false)
}

func (j *fileJournal) forget(source string) {
	j.enqueue(change{entry: entry{kind: entryForget, log: logState{source: source}}}, false)
}

func (j *fileJournal) enqueue(c change, urgent bool) {
	j.mu.Lock()
	j.queue = append(j.queue, c)
	j.mu.Unlock()
	if urgent {
		select {
		case j.kick <- struct{}{}:
		default:
		}
	}
}

// logs returns the states of all logs when the journal was opened. It is called before sources run.
func (j *fileJournal) logs() []logState {
	logs := make([]logState, 0, len(j.state.logs))
	for _, log := range j.state.logs {
		logs = append(logs, *log)
	}
	return logs
}

func (j *fileJournal) status() (outstanding int, fault string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.count, j.fault
}

// resend sends the cuts that were outstanding when the journal was opened, in their order. It skips cuts that are
// older than the sink's retention: the aggregator may no longer know that it has counted them.
func (j *fileJournal) resend(ctx context.Context, sink Sink, retention time.Duration) error {
	for _, c := range j.state.recovered {
		if age := time.Since(time.UnixMilli(c.clock)); retention > 0 && age > retention*9/10 {
			j.logger.Error("batches are too old to be sent again: their hits are lost if Kafka does not have them", "log", c.source, "from", c.from, "to", c.to, "age", age.Round(time.Second))
			j.done(nil, c)
			continue
		}
		if err := j.sendAgain(ctx, sink, []*cut{c}); err != nil {
			return err
		}
	}

	if n := len(j.state.recovered); n > 0 {
		j.logger.Info("sent the batches again that Kafka may not have had", "cuts", n)
	}
	j.state.recovered = nil
	return nil
}

func (j *fileJournal) resent(c *cut, b *batch, err error) {
	if errors.Is(err, kafka.ErrClosed) {
		return
	}
	if err != nil {
		j.faults.Note("send", fmt.Errorf("%d hits of %s are lost: %w", b.hits, c.source, err))
	}
	if c.left.Add(-1) == 0 {
		j.done(nil, c)
	}
}

// close writes the queued changes and ends the goroutine.
func (j *fileJournal) close() error {
	close(j.closing)
	<-j.ended
	return j.file.Close()
}

func (j *fileJournal) run() {
	defer close(j.ended)
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

// commit writes all queued changes, however long it takes, and answers those who wait for it.
func (j *fileJournal) commit() {
	j.mu.Lock()
	queue, asks := j.queue, j.asks
	j.queue, j.asks = nil, nil
	j.mu.Unlock()
	if len(queue) > 0 && !j.write(queue) {
		return
	}
	for _, ask := range asks {
		ask(&j.state)
	}
}

// write writes changes; ok is false when it gives up.
func (j *fileJournal) write(queue []change) (ok bool) {
	j.buffer = j.buffer[:0]
	urgent := false
	for i := range queue {
		j.buffer = queue[i].append(j.buffer)
		j.state.apply(queue[i].entry)
		urgent = urgent || queue[i].stream != nil
	}

	if err := j.append(urgent); err != nil && !j.renew(err) {
		return false
	}
	for i := range queue {
		if s := queue[i].stream; s != nil {
			queue[i].cut.noted.Store(true)
			s.woken()
		}
	}

	j.counted()
	return true
}

// standing returns the state of a log by the changes noted until now, and the cuts that Kafka may not have.
func (j *fileJournal) standing(ctx context.Context, source string) (log *logState, outstanding []*cut, err error) {
	answered := make(chan struct{})
	j.mu.Lock()
	j.asks = append(j.asks, func(s *state) {
		defer close(answered)
		if known := s.logs[source]; known != nil {
			is := *known
			log = &is
		}
		for _, c := range s.cuts[source] {
			outstanding = append(outstanding, c.copied())
		}
	})
	j.mu.Unlock()

	select {
	case j.kick <- struct{}{}:
	default:
	}

	select {
	case <-answered:
		return log, outstanding, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// sendAgain sends noted cuts that an earlier run may have sent already.
func (j *fileJournal) sendAgain(ctx context.Context, sink Sink, cuts []*cut) error {
	for _, c := range cuts {
		c.left.Store(int32(len(c.batches)))
		if len(c.batches) == 0 {
			j.done(nil, c)
			continue
		}
		if err := sink.Send(ctx, c.messages(j.resent)...); err != nil {
			return fmt.Errorf("sending outstanding batches: %w", err)
		}
	}
	return nil
}

// append writes the buffer, and syncs the file if a stream waits for that.
func (j *fileJournal) append(urgent bool) error {
	if j.bytes > max(compactBytes, 2*j.began) {
		return j.rewrite()
	}
	if err := j.disk.write(j.file, j.buffer); err != nil {
		return err
	}

	j.bytes += int64(len(j.buffer))
	if !urgent {
		return nil
	}
	if err := j.disk.sync(j.file); err != nil {
		return err
	}

	return j.folder.setMark(mark{j.id, j.generation, j.bytes})
}

// renew rewrites the journal until that succeeds. It gives up only when the collector closes.
func (j *fileJournal) renew(err error) bool {
	for pause := 50 * time.Millisecond; err != nil; pause = min(2*pause, 2*time.Second) {
		err = fmt.Errorf("writing the journal, which all files wait for: %w", err)
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

func (j *fileJournal) broken(fault string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fault = fault
}

// rewrite replaces the file by one with the state in memory, under the next generation.
func (j *fileJournal) rewrite() error {
	next := j.path() + ".next"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}

	// The old file stays until the new one is on the disk: a crash leaves one of them complete.
	data := j.state.append(header{j.id, j.generation + 1}.bytes())
	err = j.disk.write(file, data)
	if err == nil {
		err = j.disk.sync(file)
	}
	if err == nil {
		err = os.Rename(next, j.path())
	}
	if err == nil {
		err = syncFolder(j.folder.path)
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
	return j.folder.setMark(mark{j.id, j.generation, j.bytes})
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

func (j *fileJournal) counted() {
	n := 0
	for _, cuts := range j.state.cuts {
		n += len(cuts)
	}
	j.gauge.Set(float64(n))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count = n
}
