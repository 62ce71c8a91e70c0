package request

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzEnvelope: for any record and any line,
//
//   - a decoder gives a request, ErrNoRequest or a known reason, the same each time, and answers any question about the
//     record without changing the request;
//   - a line in an envelope, written as its shipper does, gives the same as the format's parser gives for the line alone.
func FuzzEnvelope(f *testing.F) {
	for _, file := range caseFiles(f) {
		for _, record := range readCase(f, file).records {
			f.Add(record, aliceLine)
		}
	}
	for _, record := range wrapped(aliceLine) {
		f.Add(record, `{"time":1,"user":"x"}`)
	}
	f.Add(`{"`, " 03.0.113.7 - alice [01/Mar/2026\x00\x02\x00\x0015:30 +0100] \"3ET /api/items?page=2 HTTP/1.1\" 200 5316 \"https://shop.example/start\" \"curl/8.5.0\"")
	f.Add(`{"`, "  "+aliceLine)
	made := decoders{}
	f.Fuzz(func(t *testing.T, record, line string) {
		for _, envelope := range Envelopes() {
			for _, format := range []string{"combined", "json"} {
				checkRecord(t, made, envelope, format, record)
				checkWrapped(t, made, envelope, format, line)
			}
		}
	})
}

// decoders are reused for the next input, unless a part of a line waits in them.
type decoders map[[2]string]*Decoder

func (made decoders) get(t *testing.T, envelope, format string) *Decoder {
	key := [2]string{envelope, format}
	if d := made[key]; d == nil || d.Pending() {
		made[key] = newDecoder(t, envelope, format, Options{})
		made[key].Want([]string{"a.b", "c"})
	}
	return made[key]
}

func checkRecord(t *testing.T, made decoders, envelope, format, record string) {
	read := func() string {
		d := made.get(t, envelope, format)
		var all strings.Builder
		d.DecodeEach(record, func(r *Request, err error) {
			if err != nil && err != ErrNoRequest && Reason(err) == "" {
				t.Fatalf("%s in %s: unknown error %v", format, envelope, err)
			}
			before := describe(r, err)
			first, _ := d.Envelope("kubernetes.labels.app")
			again, _ := d.Envelope("kubernetes.labels.app")
			if before != describe(r, err) || first != again {
				t.Fatalf("%s in %s: a question changed what was read", format, envelope)
			}
			all.WriteString(before)
		})
		return all.String()
	}
	if first, second := read(), read(); first != second {
		t.Fatalf("%s in %s: first %s then %s", format, envelope, first, second)
	}
}

func checkWrapped(t *testing.T, made decoders, envelope, format, line string) {
	if strings.ContainsAny(line, "\r\n") || strings.TrimSpace(line) == "" || !utf8.ValidString(line) {
		return
	}
	if format == "json" && (!strings.HasPrefix(line, "{") || !json.Valid([]byte(line))) {
		return // not used as a line if fields may stand around it
	}
	var alone, within Request
	want := describe(&alone, made.get(t, "none", format).Decode(line, &alone))
	if strings.Contains(want, "there is no time") {
		return // the envelope's time may be used
	}
	if got := describe(&within, made.get(t, envelope, format).Decode(wrapped(line)[envelope], &within)); got != want {
		t.Fatalf("%s in %s: got %s, alone %s", format, envelope, got, want)
	}
}
