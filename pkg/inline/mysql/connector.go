package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync"
	"time"

	"weir/pkg/inline/tables"
)

// A session makes connections with the settings that the statements need.
type session struct {
	driver.Connector
	most time.Duration // of a statement
}

// Connect makes a connection.
func (s *session) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	// MySQL skips what stands in /*M! */.
	settings := fmt.Sprintf("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; "+
		"SET autocommit = 1, sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = %d /*M! , max_statement_time = %f */",
		max(1, int(s.most.Seconds())), s.most.Seconds())
	if _, err := c.(driver.ExecerContext).ExecContext(ctx, settings, nil); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
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
	for {
		select {
		case made := <-c.spare:
			_ = made.Close()
		default:
			return
		}
	}
}
