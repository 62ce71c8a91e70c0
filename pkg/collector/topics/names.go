package topics

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"weir/internal/topic"
	"weir/pkg/collector/pipeline"
)

// mostFound is how many topics a source reads at most that only its patterns name.
const mostFound = 500

// IsPattern reports whether the name of a topic in the configuration is a pattern: * stands for any characters, ? for one.
// No topic's name contains them.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?") }

// Matches reports whether a pattern, or a name, stands for the name of a topic.
func Matches(pattern, name string) bool {
	is, err := path.Match(pattern, name) // a topic's name has none of the other characters that mean something there
	return err == nil && is && Legal(name) && !IsPattern(name)
}

// Overlap reports whether a topic may have the names that both patterns stand for. A name without * and ? stands for itself.
func Overlap(a, b string) bool {
	switch {
	case a == "" && b == "":
		return true
	case strings.HasPrefix(a, "*"):
		return Overlap(a[1:], b) || b != "" && Overlap(a, b[1:])
	case strings.HasPrefix(b, "*"):
		return Overlap(b, a)
	case a == "" || b == "":
		return false
	}
	return (a[0] == b[0] || a[0] == '?' || b[0] == '?') && Overlap(a[1:], b[1:])
}

// Legal reports whether Kafka allows a name, perhaps with the characters of a pattern.
func Legal(name string) bool {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-*?", r)
	}
	return name != "" && len(name) <= 249 && strings.IndexFunc(name, other) < 0
}

// names are the topics of a source: those that it names, and those that exist and match one of its patterns. One goroutine
// looks for them, and all may ask for the ones that it found.
type names struct {
	in     *pipeline.Intake
	client topic.Log
	config *Config

	mu      sync.Mutex
	found   []string       // by patterns, in the order in which they were found
	missing map[string]int // of these, looks in a row without it
}

func newNames(in *pipeline.Intake, config *Config) *names {
	return &names{in: in, client: config.Client, config: config, missing: map[string]int{}}
}

// all returns the topics that are known.
func (n *names) all() (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range n.config.Topics {
		if !IsPattern(name) {
			all = append(all, name)
		}
	}
	return append(all, n.found...)
}

// isFound reports whether only a pattern names the topic.
func (n *names) isFound(name string) bool { return !slices.Contains(n.config.Topics, name) }

// look looks for topics that patterns name, and returns all that are known; asked reports whether Kafka has answered. A
// topic that is gone stays among them for goneLooks looks, because brokers that start may not know it yet.
func (n *names) look(ctx context.Context) (all []string, asked bool, err error) {
	if !slices.ContainsFunc(n.config.Topics, IsPattern) {
		return n.all(), true, nil
	}
	cluster, err := n.client.Cluster(ctx)
	if err != nil {
		return n.all(), false, err
	}
	err = n.take(cluster.Topics)
	return n.all(), true, err
}

// take takes the topics that exist now.
func (n *names) take(exist []string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.found = slices.DeleteFunc(n.found, func(name string) bool {
		if slices.Contains(exist, name) {
			delete(n.missing, name)
			return false
		}
		if n.missing[name]++; n.missing[name] < goneLooks {
			return false
		}
		delete(n.missing, name)
		n.in.Logger().Warn("a topic is gone: it is no longer read", "topic", name)
		return true
	})

	slices.Sort(exist)
	left := 0
	for _, name := range exist {
		switch {
		case !n.matches(name) || slices.Contains(n.found, name):
		case len(n.found) == mostFound:
			left++
		default:
			n.found = append(n.found, name)
			n.in.Logger().Info("a topic matches a pattern: it is read", "topic", name)
		}
	}
	switch {
	case left > 0:
		return fmt.Errorf("%d topics are not read, because a source reads at most %d that its patterns name: make the patterns narrower", left, mostFound)
	case len(n.found) == 0:
		return fmt.Errorf("no topic matches %s; one is read once it exists", strings.Join(slices.DeleteFunc(slices.Clone(n.config.Topics), func(name string) bool { return !IsPattern(name) }), ", "))
	}
	return nil
}

// matches reports whether a pattern names a topic that the source may read. A foreign broker may send any name.
func (n *names) matches(name string) bool {
	if slices.Contains(n.config.Without, name) || slices.Contains(n.config.Topics, name) {
		return false
	}
	return slices.ContainsFunc(n.config.Topics, func(pattern string) bool { return Matches(pattern, name) })
}
