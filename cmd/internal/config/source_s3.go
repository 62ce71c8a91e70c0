package config

import (
	"time"

	"weir/internal/amazon"
	"weir/internal/bucket"
	"weir/internal/yamlfile"
)

const longestDelay = 14 * 24 * time.Hour

// checkS3 checks the place of an s3 source and its delay.
func (s *Source) checkS3(v yamlfile.Value) {
	if _, _, err := bucket.Parse(s.S3); err != nil {
		v.Key("s3").Fault(err)
	}
	if s.Endpoint != "" {
		if err := amazon.CheckEndpoint(s.Endpoint); err != nil {
			v.Key("endpoint").Fault(err)
		}
	}
	if s.SQS != "" {
		if err := bucket.CheckQueue(s.SQS); err != nil {
			v.Key("sqs").Fault(err)
		}
		if v.Has("start") {
			v.Key("start").Faultf("leave it out", "start has no meaning next to sqs: what the queue has is read")
		}
	}
	s.checkDelay(v)
}

// checkDelay checks how late objects and files may appear.
func (s *Source) checkDelay(v yamlfile.Value) {
	if delay := time.Duration(s.Delay); (delay < time.Minute || delay > longestDelay) && !v.Key("delay").Faulty() {
		v.Key("delay").Faultf("write 1m to 336h; 1h is usual", "a delay of %s cannot be", delay)
	}
}
