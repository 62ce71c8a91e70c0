package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/topic"
	"weir/pkg/backtest"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/pkg/rule"
)

// A catWriter shows records in one of three forms. Several goroutines may use it, each with its own show function.
type catWriter struct {
	topic, form string
	times       shown.Times

	mu     sync.Mutex
	out    *bufio.Writer
	stderr io.Writer
	unread int
	err    error // the first error of writing
}

func newCatWriter(stdout, stderr io.Writer, name, form string) *catWriter {
	w := &catWriter{topic: name, form: form, out: bufio.NewWriterSize(stdout, 64<<10), stderr: stderr, times: shown.NewTimes(stdout, time.Now())}
	if form == "text" {
		w.printf("%s", w.times.Note())
	}
	return w
}

// each shows the records that were read, without follow only those before the partition's end.
func (w *catWriter) each(records []topic.Record, p *catPart, follow bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range records {
		if !follow && records[i].Offset >= p.end {
			p.reader.SetNext(records[i].Offset) // --follow begins here
			break
		}
		p.show(&records[i])
	}

	if follow && len(records) > 0 {
		w.note(w.out.Flush())
	}
	return w.err
}

func (w *catWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(w.out.Flush())
	return w.err
}

// end returns an error when some records could not be read.
func (w *catWriter) end() error {
	err := w.flush()
	if w.unread > 0 {
		err = errors.Join(err, fmt.Errorf("%s could not be read", output.Counted(w.unread, "record")))
	}
	return err
}

// warn writes a line that is not a record to standard error.
func (w *catWriter) warn(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(w.stderr, "weir:", line)
}

func (w *catWriter) failed(partition int, r *topic.Record, err error) {
	w.unread++
	w.note(w.out.Flush()) // so that a person sees the error next to the records around it
	fmt.Fprintf(w.stderr, "weir: %s/%d, offset %d: %v\n", w.topic, partition, r.Offset, err)
}

func (w *catWriter) note(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *catWriter) printf(format string, args ...any) {
	_, err := fmt.Fprintf(w.out, format, args...)
	w.note(err)
}

// A shownBatch is a batch of hits as `weir cat hits --json` writes it.
type shownBatch struct {
	Partition int        `json:"partition"`
	Offset    int64      `json:"offset"`
	Source    string     `json:"source"`
	From      int64      `json:"from"`
	To        int64      `json:"to"`
	Part      int        `json:"part,omitempty"` // from 0 on, when the hits up to a boundary do not fit into one record
	More      bool       `json:"more,omitempty"` // further parts follow
	Hits      []shownHit `json:"hits"`
}

// A shownHit is a hit, or the command to forget the counts of a key.
type shownHit struct {
	Rule    string           `json:"rule"`
	Key     string           `json:"key"`
	Time    backtest.Instant `json:"time"`
	Cost    int64            `json:"cost,omitempty"`
	Value   string           `json:"value,omitempty"`   // the hash of the value, of a rule that counts different ones; the address, of a group rule
	Gone    bool             `json:"gone,omitempty"`    // of a group rule: the address's block never was, or was lifted
	Unblock string           `json:"unblock,omitempty"` // the command's id; then there is no cost
}

// hits returns a function that shows the batches of one partition.
func (w *catWriter) hits(partition int) func(*topic.Record) {
	var reader hit.Reader
	return func(r *topic.Record) {
		if err := reader.Reset(r.Value); err != nil {
			w.failed(partition, r, err)
			return
		}

		switch w.form {
		case "json":
			w.note(output.JSON(w.out).Encode(newShownBatch(partition, r.Offset, &reader)))
		case "plain":
			for _, item := range reader.Items() {
				w.printf("%s\n", output.Printable(string(reader.Pairs()[item.Pair].Key)))
			}
		default:
			w.batchText(newShownBatch(partition, r.Offset, &reader), reader.Header())
		}
	}
}

func newShownBatch(partition int, offset int64, r *hit.Reader) *shownBatch {
	h := r.Header()
	b := &shownBatch{Partition: partition, Offset: offset, Source: h.Source, From: h.From, To: h.To, Part: h.Part, More: h.More,
		Hits: make([]shownHit, 0, len(r.Items()))}
	for _, item := range r.Items() {
		pair := r.Pairs()[item.Pair]
		shown := shownHit{Rule: r.Rules()[pair.Rule], Key: string(pair.Key), Time: backtest.Instant(item.UnixMilli), Cost: item.Cost}
		if id, ok := r.Unblock(item); ok {
			shown.Unblock = string(id)
		} else if r.Of(pair.Rule) != 0 {
			shown.Value = fmt.Sprintf("%016x", r.Value(item))
			if item.Cost > 1 {
				_, gone := hit.Member(item.Cost)
				shown.Value, shown.Gone, shown.Cost = rule.MemberText(r.Value(item)), gone, 1
			}
		}
		b.Hits = append(b.Hits, shown)
	}
	return b
}

func (w *catWriter) batchText(b *shownBatch, h hit.Header) {
	part := ""
	if b.Part > 0 || b.More {
		part = fmt.Sprintf(", part %d", b.Part)
	}

	w.printf("%d/%d  %s from %d to %d%s, batch boundary at %s, rules %s: %s\n", b.Partition, b.Offset, output.Printable(b.Source), b.From, b.To, part,
		w.times.Exact(h.Clock), output.Printable(h.Fingerprint), output.Counted(len(b.Hits), "hit"))
	for _, h := range b.Hits {
		switch {
		case h.Cost == 0:
			w.printf("    %s  %s  %s  forget its counts (%s)\n", w.times.Exact(int64(h.Time)), output.Printable(h.Rule), output.Printable(h.Key), h.Unblock)
		case h.Gone:
			w.printf("    %s  %s  %s  value %s, gone\n", w.times.Exact(int64(h.Time)), output.Printable(h.Rule), output.Printable(h.Key), h.Value)
		case h.Value != "":
			w.printf("    %s  %s  %s  value %s\n", w.times.Exact(int64(h.Time)), output.Printable(h.Rule), output.Printable(h.Key), h.Value)
		case h.Cost > 1:
			w.printf("    %s  %s  %s  cost %d\n", w.times.Exact(int64(h.Time)), output.Printable(h.Rule), output.Printable(h.Key), h.Cost)
		default:
			w.printf("    %s  %s  %s\n", w.times.Exact(int64(h.Time)), output.Printable(h.Rule), output.Printable(h.Key))
		}
	}
}

// blocklist returns a function that shows entries, and manual entries in the same form. Watermarks and tombstones are
// shown only to people.
func (w *catWriter) blocklist(partition int) func(*topic.Record) {
	return func(r *topic.Record) {
		if r.Value == nil {
			if w.form == "text" {
				w.printf("%d  %s  cleaned up\n", r.Offset, output.Printable(string(r.Key)))
			}
			return
		}

		record, err := blocklist.DecodeRecord(r.Key, r.Value)
		if err != nil {
			w.failed(partition, r, err)
			return
		}
		if record.Mark != nil {
			m := record.Mark
			if w.form == "text" {
				w.printf("%d  watermark of %s: partition %d of %d counted to offset %d, generation %d, as of %s\n", r.Offset, m.List, m.Partition, m.Partitions,
					m.Offset, m.Generation, w.times.Exact(m.At))
			}

			return
		}

		entry := record.Entry
		if record.Order != nil {
			entry = record.Order.Entry()
		}

		switch w.form {
		case "json":
			w.note(output.JSON(w.out).Encode(entry))
		case "plain":
			w.printf("%s\n", output.Printable(entry.Key))
		default:
			w.entryText(r.Offset, entry)
		}
	}
}

func (w *catWriter) entryText(offset int64, e *blocklist.Entry) {
	if e.Order != 0 {
		w.orderText(offset, &shown.Entry{Entry: *e})
		return
	}

	until := "forever"
	if e.Until != blocklist.Never {
		until = "until " + w.times.Exact(e.Until)
	}

	w.printf("%d  %s  %s  blocked from %s %s", offset, output.Printable(e.Rule), output.Printable(e.Key), w.times.Exact(e.From), until)
	if e.Limit != "" {
		w.printf(", %s, level %d", blocklist.Broke(e.Count, "hits", output.Printable(e.Limit)), e.Level)
	}
	if e.Source == blocklist.Manual {
		w.printf(", by %s: %s", output.Printable(e.By), output.Printable(e.Why))
	}
	if e.Mode == blocklist.Shadow {
		w.printf(", in shadow")
	}
	if e.Ended != 0 {
		w.printf(", ended %s", w.times.Exact(e.Ended))
	}

	w.printf("\n")
}

// orderText shows a manual entry.
func (w *catWriter) orderText(offset int64, e *shown.Entry) {
	until := e.UntilText()
	if e.Until != blocklist.Never {
		until = "until " + w.times.Exact(e.Until)
	}
	w.printf("%d  %s  %s  from %s %s, %s", offset, shown.Kind(e.Order), e.Target(), w.times.Exact(e.From), until, e.WhyText())
	if e.Ended != 0 {
		w.printf(", ended %s", w.times.Exact(e.Ended))
	}
	w.printf("\n")
}
