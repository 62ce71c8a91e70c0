package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"weir/internal/replace"
	"weir/pkg/blocklist"
)

// topics are the topics of the last two lists. They are kept in a file next to that of the list, a line each: the list's
// id, a space, the topic. Two, because the file of the list is written later, and after a crash it may have either.
type topics struct {
	path  string
	lists []listTopic // the newest last
}

type listTopic struct{ list, topic string }

// of returns the topic of a list, or nothing when it is not known.
func (t *topics) of(list blocklist.ListID) string {
	for _, one := range t.lists {
		if one.list == list.String() {
			return one.topic
		}
	}
	return ""
}

// load reads the file next to that of the list. A line that cannot be read is as good as none.
func (t *topics) load(listFile string) error {
	if listFile == "" {
		return nil
	}
	t.path = listFile + ".topics"
	text, err := os.ReadFile(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the topics of the last lists: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		list, topic, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if _, err := blocklist.ParseListID(list); err == nil && topic != "" && strings.HasSuffix(line, "\n") {
			t.lists = append(t.lists, listTopic{list, topic})
		}
	}
	return nil
}

// note keeps the topic of a list that is about to become the current one.
func (t *topics) note(list blocklist.ListID, topic string) error {
	now := listTopic{list.String(), topic}
	if n := len(t.lists); topic == "" || n > 0 && t.lists[n-1] == now {
		return nil
	}
	t.lists = slices.DeleteFunc(t.lists, func(one listTopic) bool { return one.list == now.list })
	t.lists = append(t.lists[max(0, len(t.lists)-1):], now)
	if t.path == "" {
		return nil
	}

	var b strings.Builder
	for _, one := range t.lists {
		fmt.Fprintf(&b, "%s %s\n", one.list, one.topic)
	}
	err := replace.File(t.path, func(file *os.File) error {
		_, err := file.WriteString(b.String())
		return err
	})
	if err != nil {
		return fmt.Errorf("keeping the topic of the list: %w", err)
	}
	return nil
}
