package webhdfs

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"weir/internal/bucket"
)

// Answers of a stand-in that a real HDFS does not give here: each is refused with its reason.
func TestAnswersThatAreRefused(t *testing.T) {
	const one = `{"DirectoryListing": {"partialListing": {"FileStatuses": {"FileStatus": [{"pathSuffix": %q, "type": "FILE", "fileId": 1, "length": 1}]}}, "remainingEntries": %d}}`
	before := mostFiles
	mostFiles = 10
	defer func() { mostFiles = before }()
	closed := map[string]string{
		"GETFILESTATUS": `{"FileStatus": {"fileId": 1, "length": 5}}`, "GET_BLOCK_LOCATIONS": `{"LocatedBlocks": {"fileLength": 5}}`,
	}
	for want, answers := range map[string]map[string]string{
		`the server lists "../a" in /logs, which cannot be`: {"LISTSTATUS_BATCH": fmt.Sprintf(one, "../a", 0)},
		"the server lists a path of 40006 bytes in /logs":   {"LISTSTATUS_BATCH": fmt.Sprintf(one, strings.Repeat("a", 40_000), 0)},
		"gives no number of the inode of /logs/a":           {"LISTSTATUS_BATCH": strings.Replace(fmt.Sprintf(one, "a", 0), "fileId", "id", 1)},
		"the name node has a length of -1":                  {"GETFILESTATUS": `{"FileStatus": {"length": -1}}`, "GET_BLOCK_LOCATIONS": `{"LocatedBlocks": {"fileLength": -1}}`, "OPEN": "to http://HOST/webhdfs/v1/a?op=DATA", "DATA": "abc"},
		"has more than 10 files":                            {"LISTSTATUS_BATCH": fmt.Sprintf(one, "a", 1)},
		"it has more than 100000 files and folders":         {"LISTSTATUS_BATCH": strings.Replace(fmt.Sprintf(one, "a", 0), "[{", "["+strings.Repeat("{},", 200_000)+"{", 1)},
		"request body too large":                            {"LISTSTATUS_BATCH": `{"a": "` + strings.Repeat("a", answerMost) + `"}`},
		"requires Kerberos":                                 {"LISTSTATUS_BATCH": "401"},
		"the name node is not the active one":               {"LISTSTATUS_BATCH": "403"},
		"redirects to a place that is no data node":         {"OPEN": "to http://u:p@HOST/webhdfs/v1/a"},
		"a place that is no data node":                      {"OPEN": "to http://HOST/latest/meta-data"},
		"place that is no data node":                        {"OPEN": "to ftp://HOST/webhdfs/v1/a"},
		"the data node answers 307":                         {"OPEN": "to http://HOST/webhdfs/v1/a?op=OPEN"},
		"unexpected EOF":                                    {"OPEN": "to http://HOST/webhdfs/v1/a?op=SHORT", "SHORT": "abc"},
		"it is being written":                               {"GET_BLOCK_LOCATIONS": `{"LocatedBlocks": {"fileLength": 5, "isUnderConstruction": true}}`},
	} {
		t.Run(want, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				op := r.URL.Query().Get("op")
				text := answers[op]
				if text == "" {
					text = closed[op]
				}
				to, redirects := strings.CutPrefix(text, "to ")
				switch {
				case redirects:
					w.Header().Set("Location", strings.Replace(to, "HOST", r.Host, 1))
					w.WriteHeader(http.StatusTemporaryRedirect)
				case text == "401":
					w.Header().Set("WWW-Authenticate", "Negotiate")
					w.WriteHeader(http.StatusUnauthorized)
				case text == "403":
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprint(w, `{"RemoteException": {"exception": "StandbyException", "message": "standby"}}`)
				default:
					fmt.Fprint(w, text)
				}
			}))
			defer server.Close()
			files, err := New(Options{URLs: []string{server.URL}, Path: "/logs", User: "weir"})
			if err != nil {
				t.Fatal(err)
			}
			if answers["LISTSTATUS_BATCH"] != "" {
				err = files.List(t.Context(), "", func(bucket.Object) error { return nil })
			} else {
				var body *bucket.Body
				if body, err = files.Open(t.Context(), &bucket.Object{Key: "/logs/a", ID: "1"}); err == nil {
					_, err = body.Read(make([]byte, 10))
					for err == nil {
						_, err = body.Read(make([]byte, 10))
					}
					_ = body.Close()
				}
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// An open file is read from a byte on that the name node does not know, and only with a length.
func TestFilesThatAreOpen(t *testing.T) {
	for answer, want := range map[string]string{
		"rest":   "",
		"no end": "it is being written, and it cannot be read now: the data node gives no length",
		"behind": "", // as from a data node that has fewer bytes than another one
		"403":    "it is being written, and it cannot be read now: IOException: no block",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch query := r.URL.Query(); {
			case query.Get("op") == "GETFILESTATUS":
				fmt.Fprint(w, `{"FileStatus": {"fileId": 1, "length": 5}}`)
			case query.Get("op") == "GET_BLOCK_LOCATIONS":
				fmt.Fprint(w, `{"LocatedBlocks": {"fileLength": 0, "isUnderConstruction": true}}`)
			case !query.Has("data"):
				w.Header().Set("Location", "http://"+r.Host+root+"/a?op=OPEN&offset="+query.Get("offset")+"&data")
				w.WriteHeader(http.StatusTemporaryRedirect)
			case answer == "rest" && query.Get("offset") == "7":
				fmt.Fprint(w, "abc")
			case answer == "no end":
				_ = http.NewResponseController(w).Flush()
			default:
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, map[string]string{
					"behind": `{"RemoteException": {"exception": "EOFException", "message": "Cannot seek after EOF"}}`,
					"403":    `{"RemoteException": {"exception": "IOException", "message": "no block"}}`,
				}[answer])
			}
		}))
		files, err := New(Options{URLs: []string{server.URL}, Path: "/logs"})
		if err != nil {
			t.Fatal(err)
		}
		body, err := files.OpenFrom(t.Context(), &bucket.Object{Key: "/logs/a", ID: "1"}, 7)
		if want != "" {
			if err == nil || err.Error() != want || !errors.Is(err, bucket.ErrUnready) {
				t.Errorf("%s: the error is %v", answer, err)
			}
			server.Close()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(body)
		if err != nil || !body.Open || body.Size != 7+int64(len(text)) || (len(text) == 3) != (answer == "rest") {
			t.Errorf("%s: %q, %v, %+v", answer, text, err, body.Object)
		}
		_ = body.Close()
		server.Close()
	}
}

// A file that is closed between the calls of the name node is known to be open, or has the time at which it was closed.
func TestAFileThatIsClosedMeanwhile(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch query := r.URL.Query(); {
		case query.Get("op") == "OPEN" && !query.Has("data"):
			w.Header().Set("Location", "http://"+r.Host+root+"/a?op=OPEN&data")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case query.Get("op") == "OPEN":
		default:
			asked++
			_, _ = fmt.Fprintf(w, `{"FileStatus": {"fileId": 1, "length": 5, "modificationTime": %d}, "LocatedBlocks": {"fileLength": 5, "isUnderConstruction": %v}}`, asked, asked == 1)
		}
	}))
	defer server.Close()
	files, err := New(Options{URLs: []string{server.URL}, Path: "/logs"})
	if err != nil {
		t.Fatal(err)
	}
	body, err := files.OpenFrom(t.Context(), &bucket.Object{Key: "/logs/a", ID: "1"}, 5)
	if err != nil {
		t.Fatal(err)
	}
	if !body.Open && body.Modified.UnixMilli() < 2 {
		t.Errorf("it is %+v", body.Object)
	}
	_ = body.Close()
}

// A server that begins an answer and does not end it, as a name node or as a data node, does not hold up a file for ever.
func TestAServerThatHangs(t *testing.T) {
	before := patience
	patience = 100 * time.Millisecond
	defer func() { patience = before }()
	for _, hangs := range []string{"OPEN", "DATA"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch op := r.URL.Query().Get("op"); op {
			case "GETFILESTATUS":
				fmt.Fprint(w, `{"FileStatus": {"length": 5}}`)
			case "GET_BLOCK_LOCATIONS":
				fmt.Fprint(w, `{"LocatedBlocks": {"fileLength": 5}}`)
			case hangs:
				w.WriteHeader(http.StatusInternalServerError)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			default:
				w.Header().Set("Location", "http://"+r.Host+root+"/a?op=DATA")
				w.WriteHeader(http.StatusTemporaryRedirect)
			}
		}))
		files, err := New(Options{URLs: []string{server.URL}, Path: "/logs"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := files.Open(t.Context(), &bucket.Object{Key: "/logs/a", ID: "1"}); err == nil || !strings.Contains(err.Error(), "500 Internal Server Error") {
			t.Errorf("%s: the error is %v", hangs, err)
		}
		server.Close()
	}
}

// A path reaches the server as it is.
func TestURLs(t *testing.T) {
	files, err := New(Options{URLs: []string{"http://a:1/"}, Path: "/logs", User: "a&b"})
	if err != nil {
		t.Fatal(err)
	}
	const want = "http://a:1/webhdfs/v1/a%20b%3Fc%25/%23?op=OPEN&user.name=a%26b"
	if got := files.url("/a b?c%/#", url.Values{"op": {"OPEN"}}); got != want {
		t.Errorf("it is %s", got)
	}
}
