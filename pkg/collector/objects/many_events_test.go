package objects_test

import (
	"crypto/md5" //nolint:gosec // the checksum of SQS
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/test/real"
	"weir/test/wait"
)

// A standInQueue answers as SQS does: moto takes seconds for each message when thousands wait.
type standInQueue struct {
	hidden time.Duration // how long a message is that was received

	mu       sync.Mutex
	messages map[string]string // bodies by IDs
	seen     map[string]time.Time
	sent     int
}

// send queues messages.
func (q *standInQueue) send(bodies ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, body := range bodies {
		q.sent++
		q.messages[strconv.Itoa(q.sent)] = body
	}
}

func (q *standInQueue) left() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.messages)
}

// receive returns up to ten messages that are not hidden, in any order.
func (q *standInQueue) receive() (all []map[string]string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, body := range q.messages {
		if time.Since(q.seen[id]) < q.hidden {
			continue
		}
		q.seen[id] = time.Now()
		sum := md5.Sum([]byte(body)) //nolint:gosec // as above
		all = append(all, map[string]string{"MessageId": id, "ReceiptHandle": id, "Body": body, "MD5OfBody": fmt.Sprintf("%x", sum)})
		if len(all) == 10 {
			break
		}
	}
	return all
}

func (q *standInQueue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Entries []struct {
			ID            string `json:"Id"`
			ReceiptHandle string
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var answer any
	switch _, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); action {
	case "GetQueueAttributes":
		answer = map[string]any{"Attributes": map[string]string{"ApproximateNumberOfMessages": strconv.Itoa(q.left()), "VisibilityTimeout": strconv.Itoa(int(q.hidden / time.Second))}}
	case "ReceiveMessage":
		all := q.receive()
		for end := time.Now().Add(time.Second); len(all) == 0 && time.Now().Before(end) && r.Context().Err() == nil; all = q.receive() {
			time.Sleep(10 * time.Millisecond)
		}
		answer = map[string]any{"Messages": all}
	case "DeleteMessageBatch":
		done := []map[string]string{}
		q.mu.Lock()
		for _, one := range asked.Entries {
			delete(q.messages, one.ReceiptHandle)
			done = append(done, map[string]string{"Id": one.ID})
		}
		q.mu.Unlock()
		answer = map[string]any{"Successful": done}
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(answer)
}

// Of 10,000 objects of a real server, each line counts once: their events come in any order, some twice, some late, and
// the collector stops again and again. The journal stays small.
func TestManyObjectsOfEvents(t *testing.T) {
	real.Long(t)
	b := newBench(t)
	queue := &standInQueue{hidden: 2 * time.Second, messages: map[string]string{}, seen: map[string]time.Time{}}
	server := httptest.NewServer(queue)
	t.Cleanup(server.Close)
	b.options.Queue, b.options.Delay = server.URL+"/1/logs", time.Minute

	const many = 10_000
	var keys, events []string
	for n := range many {
		key := fmt.Sprintf("web/%d/%05d.log", n%7, n)
		keys, events = append(keys, key), append(events, record("logs", key, ""))
	}
	b.server.PutAll(keys, func(string) []byte { return text(b.Lines(2)) })
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 17))
	random.Shuffle(many, func(i, j int) { events[i], events[j] = events[j], events[i] })
	late := events[many-500:]
	queue.send(events[:many-500]...)
	queue.send(events[:500]...)
	b.Start()
	for part := 4; part > 0; part-- {
		wait.Until(t, "a fifth to be read", func() bool { return queue.left() < part*many/5 })
		b.Restart(func() {})
	}
	queue.send(late...)
	queue.send(late[:100]...)
	queue.send(events[:100]...)
	b.Await()
	wait.Until(t, "the queue to be empty", func() bool { return queue.left() == 0 })
	b.Await()
	if lost := b.lost(); lost != 0 {
		t.Errorf("%g objects are lost", lost)
	}
	if size := b.JournalBytes(); size > 2*48*many {
		t.Errorf("the journal has %d bytes", size)
	}
}
