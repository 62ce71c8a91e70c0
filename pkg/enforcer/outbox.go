package enforcer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"weir/internal/replace"
	"weir/internal/telemetry"
	"weir/internal/topic"
)

// A Sink takes messages for one topic, in order, and keeps them until the brokers have them: *kafka.Producer is one.
type Sink interface {
	Send(ctx context.Context, messages ...topic.Message) error
}

// Sinks are the destinations of orders.
type Sinks struct{ Blocklist, Events, Hits Sink }

// An outbox keeps orders on disk, one file per request, until Kafka has them, and sends them in the order in which they
// were given. Messages that were sent but not acknowledged when the process ended are sent again. That does no harm:
// records of the blocklist are idempotent, batches of hits are counted once, and only an event may appear twice.
type outbox struct {
	folder string
	logger *slog.Logger
	faults *telemetry.Faults
	queue  chan *parcel
	held   atomic.Int64 // files

	mu   sync.Mutex // held by put
	next int64      // number of the next file
}

// maxParcels bounds the parcels that wait for Kafka.
const maxParcels = 10_000

var errOutboxFull = problemf(503, "%d orders wait to be sent, and no more are accepted", maxParcels)

// openOutbox reads the waiting parcels of a folder.
func openOutbox(folder string, logger *slog.Logger) (*outbox, []*parcel, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, nil, fmt.Errorf("making the folder of orders: %w", err)
	}
	o := &outbox{folder: folder, logger: logger, faults: telemetry.NewFaults(logger)}
	files, err := os.ReadDir(folder) // sorted by name
	if err != nil {
		return nil, nil, fmt.Errorf("reading the orders that wait: %w", err)
	}

	var waiting []*parcel

	// Names are numbers of one length, so the order of names is that in which orders were given.
	for _, file := range files {
		p, err := o.read(file.Name())
		if err != nil {
			return nil, nil, err
		}
		if p != nil {
			waiting = append(waiting, p)
			o.next = max(o.next, p.number+1)
		}
	}

	// There are more than maxParcels when files could not be removed. All are sent: the newest may not be in Kafka yet.
	o.queue = make(chan *parcel, max(maxParcels, len(waiting)))
	for _, p := range waiting {
		o.queue <- p
	}
	o.held.Store(int64(len(waiting)))
	return o, waiting, nil
}

const parcelSuffix = ".order"

// read reads a file. It returns nil for a foreign file, and for a damaged one, which it logs and renames.
func (o *outbox) read(name string) (*parcel, error) {
	path := filepath.Join(o.folder, name)
	number, ours := strings.CutSuffix(name, parcelSuffix)
	n, err := strconv.ParseInt(number, 10, 64)
	if !ours || err != nil {
		if strings.HasSuffix(name, ".part") {
			err = os.Remove(path) // an unfinished file, whose order was never answered
			return nil, err
		}
		return nil, nil
	}

	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading an order that waits: %w", err)
	}

	p, err := unmarshalParcel(data)
	if err == nil {
		_, err = p.orders()
	}

	if err != nil {
		// Put aside and not deleted: a person may still read it, and give the order again.
		o.logger.Error("an order that waited to be sent cannot be read and is put aside", "file", path, "error", err)
		return nil, os.Rename(path, path+".damaged")
	}

	p.number, p.done = n, make(chan struct{})
	return p, nil
}

// put accepts a parcel: when it returns, the parcel is on disk and will be sent. Its done is closed when Kafka has it
// or refuses it permanently.
func (o *outbox) put(p *parcel) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held.Load() >= maxParcels {
		return errOutboxFull
	}

	data, err := p.marshal()
	if err != nil {
		return err
	}

	// The lock is held while the disk writes: parcels are in the queue in the order of their numbers.
	p.number, p.done = o.next, make(chan struct{})
	err = replace.File(o.path(p.number), func(file *os.File) error {
		_, err := file.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("keeping the order on disk: %w", err)
	}

	o.next++
	o.held.Add(1)
	o.queue <- p // it has room for maxParcels
	return nil
}

func (o *outbox) path(number int64) string {
	return filepath.Join(o.folder, fmt.Sprintf("%019d", number)+parcelSuffix)
}

// run sends until the context is done.
func (o *outbox) run(ctx context.Context, to Sinks) {
	for {
		select {
		case p := <-o.queue:
			o.send(ctx, to, p)
		case <-ctx.Done():
			return
		}
	}
}

// send passes a parcel to the sinks, which keep the order of each topic. Its file is removed when all of it is
// acknowledged.
func (o *outbox) send(ctx context.Context, to Sinks, p *parcel) {
	// The file goes when all messages are acknowledged or refused permanently. Done is called from the producers'
	// goroutines.
	left := &atomic.Int64{}
	left.Store(int64(len(p.Orders) + len(p.Events) + len(p.Hits)))
	var kept atomic.Bool
	done := func(err error) {
		if err != nil && !errors.Is(err, topic.ErrPermanent) {
			kept.Store(true) // the process ends: the next start sends it
		} else if err != nil {
			p.refused.Store(true)
			o.faults.Note("order", fmt.Errorf("the topics refuse an order: %w", err))
		}
		if left.Add(-1) == 0 && !kept.Load() {
			o.sent(p)
		}
	}

	for _, part := range []struct {
		to       Sink
		messages []message
	}{{to.Blocklist, p.Orders}, {to.Hits, p.Hits}, {to.Events, p.Events}} {
		if len(part.messages) == 0 {
			continue
		}
		if err := part.to.Send(ctx, kafkaMessages(part.messages, done)...); err != nil {
			return // the context is done
		}
	}
}

func (o *outbox) sent(p *parcel) {
	if err := os.Remove(o.path(p.number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.faults.Note("outbox", fmt.Errorf("an order that the topics have stays on disk, and will be sent again: %w", err))
	}
	o.held.Add(-1)
	close(p.done)
}
