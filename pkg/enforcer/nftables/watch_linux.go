package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/sleep"
)

// watch detects changes of our table by other programs. The kernel counts the generations of all its rules, and reports
// the changes of each.
type watch struct {
	asking, reports *netlink.Conn
	touched         chan struct{} // has an item when the table was touched, or may have been
	ended           sync.WaitGroup

	mu           sync.Mutex
	lastReported uint32 // the last reported generation
	lastTouched  uint32 // the last generation that touched our table
	missed       bool   // some reports were lost since forget
}

// watchBufferBytes is enough for the kernel's reports of large transactions. Reports that do not fit are lost, and the
// table is read.
const watchBufferBytes = 4 << 20

func openWatch() (*watch, error) {
	asking, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}

	// A connection of its own, because the kernel's reports would come between a question and its answer.
	reports, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err == nil {
		err = errors.Join(reports.SetReadBuffer(watchBufferBytes), reports.JoinGroup(unix.NFNLGRP_NFTABLES))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nftables: watching: %w", err), asking.Close())
	}

	w := &watch{asking: asking, reports: reports, touched: make(chan struct{}, 1), missed: true}
	w.ended.Go(w.listen)
	return w, nil
}

func (w *watch) close() {
	_ = w.asking.Close() // nothing is written
	_ = w.reports.Close()
	w.ended.Wait()
}

// generation returns the present generation of all rules.
func (w *watch) generation() (uint32, error) {
	replies, err := w.asking.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
	})
	if err != nil {
		return 0, fmt.Errorf("nftables: the generation of the rules: %w", err)
	}

	for _, reply := range replies {
		if value := attribute(reply, unix.NFTA_GEN_ID); len(value) == 4 {
			return binary.BigEndian.Uint32(value), nil
		}
	}

	return 0, errors.New("nftables: the kernel names no generation of its rules")
}

// forget is called before the table is read.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed = false
}

// spared reports that no generation after one, up to another, has touched our table.
func (w *watch) spared(after, upTo uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.missed && w.lastReported == upTo && int32(w.lastTouched-after) <= 0
}

// listen reads the kernel's reports until the connection reports is closed.
func (w *watch) listen() {
	touching := false
	for {
		messages, err := w.reports.Receive()
		// Reports were lost. Any of them may have been about our table, so it is read.
		if errors.Is(err, unix.ENOBUFS) {
			w.miss()
			continue
		}
		if err != nil {
			w.miss()
			return
		}

		for _, message := range messages {
			touching = w.hear(message, touching)
		}
	}
}

// hear handles one message. The end of a transaction has its generation; touching means that a message before it named
// our table. hear returns the new value of touching.
func (w *watch) hear(m netlink.Message, touching bool) bool {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < 4 {
		return touching
	}
	if m.Header.Type&0xff != unix.NFT_MSG_NEWGEN {
		return touching || m.Data[0] == unix.NFPROTO_INET && string(attribute(m, unix.NFTA_TABLE_NAME)) == tableName+"\x00"
	}
	if value := attribute(m, unix.NFTA_GEN_ID); len(value) == 4 {
		w.end(binary.BigEndian.Uint32(value), touching)
	}
	return false
}

func (w *watch) end(generation uint32, touching bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastReported = generation
	if touching {
		w.lastTouched = generation
		sleep.Wake(w.touched)
	}
}

func (w *watch) miss() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed = true
	sleep.Wake(w.touched)
}

// attribute returns the value of a message's attribute. In all messages about the kernel's rules the first one names
// the table.
func attribute(m netlink.Message, kind uint16) []byte {
	attributes, err := netlink.NewAttributeDecoder(m.Data[4:])
	if err != nil {
		return nil
	}
	for attributes.Next() {
		if attributes.Type() == kind {
			return attributes.Bytes()
		}
	}
	return nil
}
