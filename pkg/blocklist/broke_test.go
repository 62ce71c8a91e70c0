package blocklist

import "testing"

func TestBroke(t *testing.T) {
	for limit, want := range map[string]string{
		"200/hour":                                      "201 hits broke 200/hour",
		"3 refused in 1m":                               "201 hits broke 3 refused in 1m",
		"20 at once":                                    "201 hits broke 20 at once",
		"200 different paths within an hour":            "more than 200 different paths within an hour",
		"5 blocked addresses within an hour":            "more than 5 blocked addresses within an hour",
		"20 different users within a day":               "more than 20 different users within a day",
		"50% of at least 20 requests within 10 minutes": "more than 50% of at least 20 requests within 10 minutes",
	} {
		if got := Broke(201, "hits", limit); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
