package rule

import (
	"regexp"

	"weir/internal/yamlfile"
	"weir/pkg/inline"
)

// A queueSpec is the stream of Redis that an inline rule puts its requests into.
type queueSpec struct {
	Stream string `yaml:"redis_stream"`
	AtMost int64  `yaml:"at_most"`
}

// FromYAML reads a map of both.
func (q *queueSpec) FromYAML(v yamlfile.Value) {
	type plain queueSpec // without methods, or Decode would call FromYAML again
	*q = queueSpec{}
	if !v.Decode((*plain)(q)) {
		return
	}
	stream, atMost := v.Key("redis_stream"), v.Key("at_most")
	switch {
	case v.Faulty() || stream.Faulty() || atMost.Faulty():
	case !v.Given("redis_stream") || !v.Given("at_most"):
		v.Faultf("write queue: {redis_stream: jobs, at_most: 10}", "the queue needs the name of its stream, and how many entries it has at most")
	case !goodStream.MatchString(q.Stream):
		stream.Faultf("use 1 to 128 printable characters without spaces", "%q is no name for a stream", q.Stream)
	case q.AtMost < 1 || q.AtMost > inline.MostQueued:
		atMost.Faultf("write 1 to 1000000", "a queue of %d entries is not possible", q.AtMost)
	}
}

var goodStream = regexp.MustCompile(`^[!-~]{1,128}$`)

// checkQueue finds what does not go together with a queue.
func (r *ruleSpec) checkQueue(v yamlfile.Value) {
	queue := v.Key("queue")
	switch {
	case !r.Inline.On:
		queue.Faultf("write inline: true", "only an inline rule has a queue")
	case r.Inline.AlsoLog:
		queue.Faultf("write inline: true", "a rule with a queue cannot have also: log")
	case inline.OnError(r.OnError) != inline.Refuse && !v.Key("on_error").Faulty():
		queue.Faultf("write on_error: refuse next to it", "a request that was admitted while Redis fails would not be in the queue")
	}
}
