package rabbit

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A connection is read as far as there is room, and further once something was taken, or when it ends.
func TestAConnectionIsReadAsFarAsThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, servers := net.Pipe()
		conn := &held{ours, newWaiting()}
		var came atomic.Int64
		go func() {
			for b := make([]byte, 1<<20); ; {
				n, err := conn.Read(b)
				if came.Add(int64(n)); err != nil {
					return
				}
			}
		}()
		go func() {
			for {
				if _, err := servers.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}()
		is := func(want int64, what string) {
			t.Helper()
			synctest.Wait()
			if got := came.Load(); got != want {
				t.Errorf("%s, %d bytes have come, want %d", what, got, want)
			}
		}
		is(untakenBytes, "while none are taken")
		time.Sleep(time.Hour) // the deadlines of heartbeats pass
		conn.waiting.took(5 << 20)
		is(untakenBytes+5<<20, "after 5 MiB were taken")
		<-conn.waiting.full
		conn.waiting.tookAll()
		is(2*untakenBytes+5<<20, "after all were taken")
		servers.Close()
		conn.waiting.end()
		synctest.Wait()
		conn.Close()
	})
}

// That there was no room once does not make room: more may be read only when no message comes although there is none.
func TestMessagesOnTheirWayAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, bytes := range []int{untakenBytes, untakenBytes / 2} {
			deliveries := make(chan amqp.Delivery)
			q := &queue{waiting: newWaiting(), deliveries: deliveries}
			q.waiting.came(bytes)
			q.waiting.full <- struct{}{}
			go func() {
				time.Sleep(stuck / 2)
				deliveries <- amqp.Delivery{Body: make([]byte, 1000)}
			}()
			if d, err := q.next(t.Context(), true); err != nil || d == nil || q.waiting.bytes != bytes-1000 {
				t.Errorf("%v, %v: %d bytes wait", d, err, q.waiting.bytes)
			}

			q.waiting.full <- struct{}{}
			q.waiting.came(1000)
			want := bytes
			if bytes == untakenBytes {
				want = 0
			}
			if d, err := q.next(t.Context(), true); err != nil || d != nil || q.waiting.bytes != want {
				t.Errorf("%v, %v: %d bytes wait, want %d", d, err, q.waiting.bytes, want)
			}
		}
	})
}
