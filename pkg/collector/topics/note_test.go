package topics

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"weir/internal/topic"
	"weir/pkg/attempts"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pipeline"
)

func TestANoteReadsBackAndFits(t *testing.T) {
	longest := kafkaNote{Incarnation: journal.NewID(), Partitions: math.MaxInt32, Rules: strings.Repeat("f", 64), Reached: math.MaxInt64, End: true, Waits: math.MaxInt64, TopicID: strings.Repeat("f", 32),
		At: math.MaxInt64, Last: &recordID{math.MaxInt64, math.MaxUint32}, Mark: &recordID{math.MaxInt64, math.MaxUint32}, Envelope: strings.Repeat("e", 20), Format: strings.Repeat("f", 40)}
	var writers attempts.Repeats
	for n := range 1000 {
		writers.See(attempts.Mark{From: fmt.Sprint(n), Sequence: math.MaxUint64})
	}
	longest.Writers = writers.Append(nil)
	var cuts []pipeline.Again
	at := int64(1)
	for range pipeline.InFlightCuts {
		cuts = append(cuts, pipeline.Again{From: at, To: at + math.MaxInt64/pipeline.InFlightCuts - 1, Clock: math.MinInt64})
		at = cuts[len(cuts)-1].To
	}
	commit := longest.commit(1, cuts)
	if len(commit.Metadata) > topic.MaxMetadata {
		t.Errorf("the longest note has %d bytes", len(commit.Metadata))
	}
	t.Logf("the longest note has %d bytes", len(commit.Metadata))
	note, again, err := readNote(commit)
	if err != nil || len(again) != len(cuts) || again[0] != cuts[0] || again[len(cuts)-1] != cuts[len(cuts)-1] {
		t.Fatalf("read back: %d cuts of %d, %v", len(again), len(cuts), err)
	}
	if !bytes.Equal(note.Writers, longest.Writers) {
		t.Error("the writers of attempts differ")
	}
	if *note.Last != *longest.Last || note.Reached != longest.Reached || note.Format != longest.Format || !note.End {
		t.Errorf("read back: %+v", note)
	}
}

func TestWhereAPartitionIsTakenUp(t *testing.T) {
	note := kafkaNote{Incarnation: "i"}
	cuts := []pipeline.Again{{From: 100, To: 110, Clock: 5}, {From: 110, To: 130, Clock: 6}}
	newer := note.commit(100, nil)
	newer.Metadata = strings.TrimSuffix(strings.Replace(newer.Metadata, `"v":1`, `"v":2`, 1), "}")
	newer.Metadata += fmt.Sprintf(`,"sum":"%08x"}`, crc32.Checksum([]byte(newer.Metadata), crcTable))
	for name, c := range map[string]struct {
		commit topic.Commit
		span   topic.Span
		offset int64
		again  int
		whyNew string
		err    error
	}{
		"nothing stored":             {topic.Commit{Offset: -1}, topic.Span{End: 200}, -1, 0, "nothing is stored", nil},
		"where it was":               {note.commit(100, nil), topic.Span{End: 200}, 100, 0, "", nil},
		"at the end":                 {note.commit(200, nil), topic.Span{End: 200}, 200, 0, "", nil},
		"with cuts to make again":    {note.commit(100, cuts), topic.Span{End: 200}, 100, 2, "", nil},
		"begins later now":           {note.commit(100, cuts), topic.Span{Start: 120, End: 200}, 100, 2, "", nil},
		"ends before the offset":     {note.commit(100, nil), topic.Span{End: 99}, -1, 0, "its log ends at 99, but it was read up to 100", nil},
		"ends before a cut":          {note.commit(100, cuts), topic.Span{End: 129}, -1, 0, "its log ends at 129, but it was read up to 130", nil},
		"moved by a tool":            {topic.Commit{Offset: 50}, topic.Span{End: 200}, 50, 0, "not written by a collector", nil},
		"another program's metadata": {topic.Commit{Offset: 50, Metadata: `{"v":"x"}`}, topic.Span{End: 200}, 50, 0, "not written by a collector", nil},
		"cuts that go back":          {topic.Commit{Offset: 50, Metadata: `{"v":1,"incarnation":"i","cuts":[-3,1]}`}, topic.Span{End: 200}, 50, 0, "not written by a collector", nil},
		"another version, no sum":    {topic.Commit{Offset: 50, Metadata: `{"v":7,"incarnation":"i"}`}, topic.Span{End: 200}, 50, 0, "not written by a collector", nil},
		"of a newer version":         {newer, topic.Span{End: 200}, 100, 0, "", errNewerNote},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newTakeover(c.commit, c.span)
			if !errors.Is(err, c.err) || got.offset != c.offset || len(got.again) != c.again || !strings.Contains(got.whyNew, c.whyNew) || (c.whyNew == "") != (got.whyNew == "") {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestCutsThatWereNotSentAreDropped from the journal at the end: the next owner reads their records.
func TestCutsThatWereNotSentAreDropped(t *testing.T) {
	j := &commitJournal{cuts: []pipeline.Again{{From: 0, To: 1, Clock: 0}, {From: 1, To: 2, Clock: 0}, {From: 2, To: 3, Clock: 0}}, end: true}
	if j.drop(2); len(j.cuts) != 1 || j.cuts[0].To != 1 || j.end {
		t.Errorf("cuts %v are left, all is read: %v", j.cuts, j.end)
	}
}
