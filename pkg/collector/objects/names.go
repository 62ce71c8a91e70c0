package objects

import (
	"regexp"
	"strings"
	"time"
)

var (
	balancerName = regexp.MustCompile(`_elasticloadbalancing_[^/]*_(\d{8}T\d{4}Z)_[^/]*$`)
	cdnName      = regexp.MustCompile(`(?:^|/)[A-Z0-9]+\.(\d{4}-\d{2}-\d{2}-\d{2})\.[^/]+$`)
)

// TimeOf is the time in the name of an object that a load balancer or CloudFront wrote: the end of its requests, or the
// hour.
func TimeOf(key string) (at time.Time, ok bool) {
	layout, found := "20060102T1504Z", balancerName.FindStringSubmatch(key)
	if found == nil {
		layout, found = "2006-01-02-15", cdnName.FindStringSubmatch(key)
	}
	if found == nil {
		return at, false
	}
	at, err := time.Parse(layout, found[1])
	return at, err == nil
}

// IsLog reports whether an object may be a log: it is not a folder, nor the file that a load balancer writes to test its
// rights.
func IsLog(key string, size int64) bool {
	return size > 0 && !strings.HasSuffix(key, "/") && !strings.HasSuffix(key, "/ELBAccessLogTestFile")
}
