package objects

import (
	"testing"
	"time"
)

// The names are those of the vendors' documents.
func TestNamesShowTheTime(t *testing.T) {
	for key, want := range map[string]string{
		"p/AWSLogs/123456789012/elasticloadbalancing/us-east-2/2022/05/01/123456789012_elasticloadbalancing_us-east-2_app.my-loadbalancer.1234567890abcdef_20220215T2340Z_172.160.001.192_20sg8hgm.log.gz": "2022-02-15T23:40:00Z",
		"AWSLogs/1/elasticloadbalancing/us-west-2/2014/02/15/123456789012_elasticloadbalancing_us-west-2_my-loadbalancer_20140215T2340Z_172.160.001.192_20sg8hgm.log":                                      "2014-02-15T23:40:00Z",
		"example-prefix/EMLARXS9EXAMPLE.2019-11-14-20.RT4KCN4SGK9.gz": "2019-11-14T20:00:00Z",
		"EMLARXS9EXAMPLE.2019-99-14-20.RT4KCN4SGK9.gz":                "",
		"web/access.log.2019-11-14-20.gz":                             "",
		"":                                                            "",
	} {
		at, ok := TimeOf(key)
		if got := at.Format(time.RFC3339); ok && got != want || ok != (want != "") {
			t.Errorf("%s has the time %s, %v", key, got, ok)
		}
	}
}
