package topic

import "strings"

// An Identity names one topic of one cluster: "cluster/topic/id". A topic that was deleted and created again has another
// one. It is empty, or has no id, where the log does not know better.
type Identity string

// Is reports whether both may be the same topic. An id that one of them lacks decides nothing.
func (i Identity) Is(other Identity) bool {
	topic, id := i.split()
	otherTopic, otherID := other.split()
	return topic == otherTopic && (id == otherID || id == "" || otherID == "")
}

func (i Identity) split() (topic, id string) {
	cut := strings.LastIndexByte(string(i), '/')
	return string(i[:max(cut, 0)]), string(i[cut+1:])
}
