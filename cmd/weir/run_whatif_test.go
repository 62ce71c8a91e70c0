package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/pkg/enforcer/whatif"
)

// A run answers what other limits would have done with the log that it has read, and the first outcome is what its own
// rule has done.
func TestARunShowsWhatOtherLimitsWouldHaveDone(t *testing.T) {
	folder, enforcer := attemptsIn(t, "[{name: per-ip, key: ip, limits: [10/min], count: all, block: {for: 1h}}]", "")
	f, err := os.Create(filepath.Join(folder, "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")
	for client, requests := range map[string]int{"203.0.113.9": 30, "203.0.113.8": 12, "203.0.113.7": 3} {
		for range requests {
			fmt.Fprintf(f, "%s - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n", client, at)
		}
	}
	f.Close()
	p := start(t, "run", "--config", filepath.Join(folder, "weir.yaml"))
	for _, client := range []string{"203.0.113.9", "203.0.113.8"} {
		awaitAnswer(t, p, enforcer, client, http.StatusTooManyRequests)
	}

	response, err := http.Get("http://" + enforcer + "/v1/whatif?rule=per-ip&limits=20/min")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var a whatif.Answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	if a.Hits != 45 || a.Keys != 3 || a.Now.Blocked != 2 || a.Now.Refused != 20+2 || a.Other.Blocked != 1 || a.Other.Refused != 10 || a.OnlyNow != 1 || len(a.Top) != 2 || a.Top[0].Key != "203.0.113.9" {
		t.Errorf("%+v", a)
	}
}
