package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

const (
	releaseAfter = 200 * time.Millisecond // joining takes less

	mostPlaces = 64      // processes of one folder in one group that keep their ids
	mostID     = 4 << 10 // bytes of a member's id
)

// A place keeps the id that a process has in a group, in a file that the process locks. A file with an id and without
// a lock is that of a process that was killed. The group would wait for such a member until its session is over, so
// the next process of the folder removes it from the group.
type place struct {
	file   *os.File   // ours; nil keeps nothing
	others []*os.File // of processes that were killed
	former []string   // the ids in all of them
	id     string     // in ours
}

// takePlace locks the first free file of a group in a folder, and those of all processes that were killed.
func takePlace(folder, group string) (*place, error) {
	if folder == "" {
		return &place{}, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return &place{}, err
	}

	p := &place{}
	for n := range mostPlaces {
		path := filepath.Join(folder, fmt.Sprintf("%s.%d", url.PathEscape(group), n))
		if _, err := os.Stat(path); p.file != nil && errors.Is(err, os.ErrNotExist) {
			break
		}
		file, id, err := lockedPlace(path)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			continue
		case err != nil:
			p.close()
			return &place{}, err
		case p.file == nil:
			p.file = file
		default:
			p.others = append(p.others, file)
		}
		if id != "" {
			p.former = append(p.former, id)
		}
	}
	return p, nil
}

// lockedPlace opens and locks a file, and reads its id.
func lockedPlace(path string) (file *os.File, id string, err error) {
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600) // a pipe does not block
	if err != nil {
		return nil, "", err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(file, mostID))
	}
	if err != nil {
		file.Close()
		return nil, "", err
	}
	id, ended := strings.CutSuffix(string(text), "\n")
	if !ended { // the process was killed while it wrote
		id = ""
	}
	return file, id, nil
}

// release removes the members of processes that were killed from the group. A member that the group no longer has is
// no error.
func (p *place) release(ctx context.Context, client *Client, group string) {
	ctx, cancel := context.WithTimeout(ctx, leavePatience)
	defer cancel()
	for _, id := range p.former {
		_, err := client.kafka.LeaveGroup(ctx, &kafkago.LeaveGroupRequest{GroupID: group, Members: []kafkago.LeaveGroupRequestMember{{ID: id}}})
		if err != nil {
			return // the group notices by itself, after a session
		}
	}
	p.former = nil
	for _, file := range p.others {
		_ = file.Truncate(0)
		file.Close()
	}
	p.others = nil
}

// keep stores our id. It is not synced: a machine that loses its power takes longer to start than a session lasts.
func (p *place) keep(id string) {
	if p.file == nil || p.id == id || len(id) >= mostID {
		return
	}
	if err := p.file.Truncate(0); err != nil {
		return
	}
	if _, err := p.file.WriteAt([]byte(id+"\n"), 0); err == nil {
		p.id = id
	}
}

// close unlocks the files.
func (p *place) close() {
	for _, file := range append(p.others, p.file) {
		if file != nil {
			file.Close()
		}
	}
}
