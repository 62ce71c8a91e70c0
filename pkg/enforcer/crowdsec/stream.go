package crowdsec

import (
	"cmp"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fewRows is how many rows are not worth compressing.
const fewRows = 10

// Bouncers that name no scopes get addresses and prefixes.
const defaultScopes = "ip,range"

// decisions answers a bouncer that asks about one address, or one value.
func (a *API) decisions(w http.ResponseWriter, r *http.Request, key string) {
	f, err := parseFilter(r.URL.Query())
	if err != nil {
		answerError(w, http.StatusBadRequest, err.Error())
		return
	}

	release, ok := a.ready(w, r)
	if !ok {
		return
	}
	defer release()
	now := a.Now().UnixMilli()
	t := a.tableOf(key)

	// tableOf returns the table locked. The lock is held for finding only: the client may read slowly.
	rows := t.find(&f)
	t.mu.Unlock()
	if a.Asked != nil && f.ofOne() {
		a.Asked(longestOf(rows))
	}
	w.Header().Set("Content-Type", jsonType)
	if len(rows) == 0 {
		_, _ = w.Write([]byte("null"))
		return
	}

	out := newOutput(w, r, len(rows) > fewRows)
	out.open(`[`)
	for _, r := range rows {
		out.object(r, liveDuration(r.remaining(now)), false)
	}

	out.text(`]`)
	out.close()
}

// longestOf returns the rule and the entry of the decision that lasts longest.
func longestOf(rows []*row) (rule, entry string) {
	if len(rows) == 0 {
		return "", ""
	}
	longest := slices.MaxFunc(rows, func(a, b *row) int { return cmp.Compare(a.Until, b.Until) })
	return longest.Rule, longest.Entry
}

// stream answers a bouncer that keeps its own list.
func (a *API) stream(w http.ResponseWriter, r *http.Request, key string) {
	query := r.URL.Query()
	f, err := parseFilter(query)
	if err != nil {
		answerError(w, http.StatusBadRequest, err.Error())
		return
	}

	if !query.Has("scopes") && !query.Has("scope") {
		f.scopes = scopesOf(defaultScopes)
	}
	release, ok := a.ready(w, r)
	if !ok {
		return
	}
	defer release()
	now := a.Now().UnixMilli()
	who := bouncerOf(key, r, &f)
	a.warnOfIgnored(key, r)
	startup := query.Get("startup") == "true"
	w.Header().Set("Content-Type", "application/json")
	out := newOutput(w, r, true)
	if out.open(`{"new": [`); startup {
		out.flush() // before the slow part, which cannot fail
	}

	// The rows do not change (row), so they can be written without the lock.
	t := a.tableOf(key)
	said := t.answerTo(who, r.RemoteAddr, &f, startup)
	t.mu.Unlock()
	a.note("keeping the changes for bouncers", t.persistSoon(a.Now()))
	said.write(out, now)

	// Only now has the bouncer got them. If writing fails it panics, and the bouncer gets the same changes again.
	t.mu.Lock()
	two := t.got(who, r.RemoteAddr, cursor{Revision: said.revision, At: now})
	t.mu.Unlock()
	if two {
		a.warnOnce("two "+key, "two CrowdSec bouncers of one kind poll with one key from one address: give each a key of its own", "key", key, "address", who.Address)
	}
}

// traefiksPlugin is how the user agent of Traefik's plugin begins.
const traefiksPlugin = "Crowdsec-Bouncer-Traefik-Plugin"

// warnOfIgnored logs once for a key that its bouncer ignores prefixes, although it gets some.
func (a *API) warnOfIgnored(key string, r *http.Request) {
	if !strings.HasPrefix(r.UserAgent(), traefiksPlugin) || slices.Contains(a.Addresses, key) {
		return
	}
	a.warnOnce("ignores "+key, "Traefik's CrowdSec plugin polls in stream mode, in which it ignores prefixes, the /64 of IPv6 too: "+
		"set its crowdsecMode to live, or name its key in enforcer.crowdsec.addresses", "key", key, "agent", r.UserAgent())
}

// warnOnce logs a warning once per subject.
func (a *API) warnOnce(about, text string, attributes ...any) {
	if _, known := a.warned.LoadOrStore(about, true); !known {
		a.Logger.Warn(text, attributes...)
	}
}

// answerTo returns the answer for a bouncer: the changes, or everything when these are not known or it asks for
// everything.
func (t *table) answerTo(who bouncer, connection string, f *filter, startup bool) answer {
	revision, known := t.reached(who, connection)
	if startup || !known || !t.knows(revision) {
		return t.startup(f)
	}
	return t.delta(f, revision)
}

// write writes the rest of an answer after the beginning of the first list.
func (a answer) write(out *output, nowMilli int64) {
	for _, r := range a.fresh {
		out.object(r, r.remaining(nowMilli), true)
	}
	out.open(`], "deleted": [`)
	for _, c := range a.deleted {
		out.object(c.Row, past(c.Ended, nowMilli), true)
	}
	out.text(`]}`)
	out.close()
}

// ready reserves a place for an answer, if there is a complete list and a free place.
func (a *API) ready(w http.ResponseWriter, r *http.Request) (release func(), ok bool) {
	if !a.List.Whole() {
		busy(w, "there is no complete list yet")
		return nil, false
	}
	if release, ok = a.writing.TryTake(r); !ok {
		busy(w, "too many lists are being written")
	}
	return release, ok
}

func busy(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", "1")
	answerError(w, http.StatusServiceUnavailable, message)
}

// An output writes a list of objects in pieces, with a deadline for each piece and one for all of them, because there
// are few places. It ends the connection of a client that has gone, or does not read in time.
type output struct {
	w       io.Writer
	until   time.Time    // the deadline, which moves with the written bytes at the slowest rate
	zip     *gzip.Writer // nil: not compressed
	control *http.ResponseController
	piece   []byte
	first   bool
}

const (
	pieceBytes    = 64 << 10
	piecePatient  = 30 * time.Second
	outputPatient = time.Minute
	slowest       = 64 << 10 // bytes a second
)

// newOutput begins an answer, compressed if it may be long and the bouncer asks for that.
func newOutput(w http.ResponseWriter, r *http.Request, long bool) *output {
	o := &output{w: w, until: time.Now().Add(outputPatient), control: http.NewResponseController(w)}
	if !long {
		return o
	}
	w.Header().Add("Vary", "Accept-Encoding")
	if takesGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		o.zip, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		o.w = o.zip
	}
	return o
}

// takesGzip reports whether an answer may be compressed.
func takesGzip(r *http.Request) bool {
	for _, list := range r.Header.Values("Accept-Encoding") {
		for one := range strings.SplitSeq(list, ",") {
			name, quality, _ := strings.Cut(one, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			value, found := strings.CutPrefix(strings.ReplaceAll(quality, " ", ""), "q=")
			weight, err := strconv.ParseFloat(value, 64)
			return !found || err == nil && weight > 0
		}
	}
	return false
}

// open writes the beginning of an array.
func (o *output) open(text string) {
	o.text(text)
	o.first = true
}

func (o *output) text(text string) { o.piece = append(o.piece, text...) }

func (o *output) object(r *row, duration time.Duration, withUUID bool) {
	if !o.first {
		o.piece = append(o.piece, ',')
	}
	o.first = false
	if o.piece = r.append(o.piece, duration, withUUID); len(o.piece) >= pieceBytes {
		o.flush()
	}
}

func (o *output) flush() {
	deadline := time.Now().Add(piecePatient)
	if o.until.Before(deadline) {
		deadline = o.until
	}

	_ = o.control.SetWriteDeadline(deadline) // some writers have none
	_, err := o.w.Write(o.piece)

	// A client that reads at the slowest rate or faster always gets all of it.
	o.until = o.until.Add(time.Duration(len(o.piece)) * time.Second / slowest)
	if err == nil && o.zip != nil {
		err = o.zip.Flush()
	}
	if err == nil {
		err = o.control.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the written part must not look like the complete list
	}

	o.piece = o.piece[:0]
}

func (o *output) close() {
	o.flush()
	if o.zip != nil && o.zip.Close() != nil {
		panic(http.ErrAbortHandler)
	}
	_ = o.control.SetWriteDeadline(time.Time{})
}
