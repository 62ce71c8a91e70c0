package nftables

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"

	"weir/pkg/enforcer/cidr"
)

// kernel is the table in the kernel.
type kernel struct {
	watch      *watch
	generation uint32 // of all rules, when the table was last known
}

// writeBufferBytes is enough for a transaction; the kernel doubles it for its own needs. Every user may ask for that
// much.
const writeBufferBytes = 208 << 10

func openKernel() (table, error) {
	w, err := openWatch()
	if err != nil {
		return nil, err
	}
	return &kernel{watch: w}, nil
}

func (k *kernel) close() { k.watch.close() }

func (k *kernel) touched() <-chan struct{} { return k.watch.touched }

// connect opens a connection for one transaction or one read, so that unread messages after an error are dropped with
// it.
func connect() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		if err := c.SetOption(netlink.CapAcknowledge, true); err != nil {
			return err
		}
		return c.SetWriteBuffer(writeBufferBytes)
	}))
}

func (k *kernel) untouched() (bool, error) {
	now, err := k.watch.generation()
	if err != nil {
		return false, explained(err)
	}
	if now != k.generation && !k.watch.spared(k.generation, now) {
		return false, nil
	}
	k.generation = now
	return true, nil
}

func (k *kernel) read() (blocks []cidr.Block, intact bool, err error) {
	// Before the generation, and that before the elements: a change meanwhile gives another generation, and the next
	// round reads again.
	k.watch.forget()
	if k.generation, err = k.watch.generation(); err != nil {
		return nil, false, explained(err)
	}

	conn, err := connect()
	if err != nil {
		return nil, false, explained(err)
	}
	if intact, err = isIntact(conn); !intact || err != nil {
		return nil, false, explained(err)
	}

	for _, set := range newSets() {
		found, err := conn.GetSetElements(set)
		if err != nil {
			return nil, false, explained(fmt.Errorf("reading the set %s: %w", set.Name, err))
		}
		of, ok := blocksOf(found, time.Now().UnixMilli())
		if !ok {
			return nil, false, nil
		}
		blocks = append(blocks, of...)
	}

	slices.SortFunc(blocks, cidr.Compare)
	return blocks, true, nil
}

func (k *kernel) commit(p plan) error {
	conn, err := connect()
	if err != nil {
		return explained(err)
	}

	sets := newSets()
	if p.recreate {
		if err := addTable(conn, sets); err != nil {
			return err
		}

		// Without elements there is still the table to create.
		if len(p.steps) == 0 {
			p.steps = []step{{}}
		}
	}

	for _, s := range p.steps {
		if err := addStep(conn, sets, s); err != nil {
			return err
		}
		if err := conn.Flush(); err != nil {
			return explained(fmt.Errorf("changing the table inet %s: %w", tableName, err))
		}
	}

	return k.own(len(p.steps))
}

// own notes that this many of the rules' generations are ours. If there are others in between, the table must be read.
func (k *kernel) own(transactions int) error {
	now, err := k.watch.generation()
	if err != nil {
		return explained(err)
	}
	if ours := k.generation + uint32(transactions); now == ours {
		k.generation = now
	}
	return nil
}

func (k *kernel) remove() error {
	conn, err := connect()
	if err != nil {
		return explained(err)
	}
	conn.AddTable(newTable()) // so that deleting it does not fail after another program has
	conn.DelTable(newTable())
	return explained(conn.Flush())
}
