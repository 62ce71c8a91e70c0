package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"weir/pkg/inline/tables"
)

// A session makes connections with the settings that the statements need.
type session struct {
	driver.Connector
	most     time.Duration // of a statement
	panicked atomic.Int64  // when the driver last did while it connected, in nanoseconds
}

// calm is the time after a panic in which nothing connects: each leaves a goroutine of the driver.
const calm = 30 * time.Second

// Connect makes a connection.
func (s *session) Connect(ctx context.Context) (_ driver.Conn, err error) {
	if last := s.panicked.Load(); last > 0 && time.Since(time.Unix(0, last)) < calm {
		return nil, errAnswer
	}
	var dialed net.Conn
	defer caught(&err, func() {
		s.panicked.Store(time.Now().UnixNano())
		if dialed != nil {
			_ = dialed.Close()
		}
	})
	made, err := s.Connector.Connect(context.WithValue(ctx, dialing{}, &dialed))
	if err != nil {
		return nil, err
	}
	c := &safe{conn: made.(conn)}
	// MySQL skips what stands in /*M! */.
	settings := fmt.Sprintf("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; "+
		"SET autocommit = 1, sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = %d /*M! , max_statement_time = %f */",
		max(1, int(s.most.Seconds())), s.most.Seconds())
	if _, err := c.ExecContext(ctx, settings, nil); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// dialing is the key of the context of session.Connect.
type dialing struct{}

// dial connects, and tells session.Connect. An opaque connection is compressed.
func dial(ctx context.Context, network, address string, opaque bool) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	made := &checked{Conn: tables.Bound(c), opaque: opaque}
	if told, ok := ctx.Value(dialing{}).(*net.Conn); ok {
		*told = made
	}
	return made, nil
}

// A connector finishes connecting when the caller does not wait any longer, and gives the connection to the next. Else
// a caller that waits for less time than connecting takes would never get one.
type connector struct {
	driver.Connector
	slots   chan struct{} // of those that are made
	spare   chan driver.Conn
	ctx     context.Context // until close
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newConnector(inner driver.Connector, most int) *connector {
	ctx, cancel := context.WithCancel(context.Background())
	return &connector{Connector: inner, slots: make(chan struct{}, most), spare: make(chan driver.Conn, most), ctx: ctx, cancel: cancel}
}

// Connect returns a connection that was made for this call or for another.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	select {
	case made := <-c.spare:
		return made, nil
	default:
	}
	failed := make(chan error, 1)
	select {
	case c.slots <- struct{}{}:
		c.running.Go(func() { c.make(failed) })
	case made := <-c.spare:
		return made, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case made := <-c.spare:
		return made, nil
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *connector) make(failed chan<- error) {
	defer func() { <-c.slots }()
	ctx, cancel := context.WithTimeout(c.ctx, tables.Patience)
	defer cancel()
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		failed <- err
		return
	}
	select {
	case c.spare <- made:
	default:
		_ = made.Close()
	}
}

// close closes the connections that no call has taken.
func (c *connector) close() {
	c.cancel()
	c.running.Wait()
	c.drop()
}

// drop closes the connections that no call has taken so far.
func (c *connector) drop() {
	for {
		select {
		case made := <-c.spare:
			_ = made.Close()
		default:
			return
		}
	}
}
