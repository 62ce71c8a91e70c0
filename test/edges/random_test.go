package edges

import (
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/request"
	"weir/test/wait"
)

const stranger = "127.0.0.33"

// randomEdges are the edges with the files of deployments/edge, for HTTP/1 and, at the second address, HTTP/2 without TLS.
var randomEdges = []struct {
	name, format string
	lists        bool // it looks clients up in a list, and knows neither paths nor hosts
	start        func(s *site) (http1, http2 string, log func() string)
}{
	{"nginx", "weir", false, func(s *site) (string, string, func() string) {
		http1, http2 := loopback+":"+freePort(s.t), loopback+":"+freePort(s.t)
		log := nginx(s.t, snippet(s.t, "nginx.conf", "listen 80;", "listen "+http1+"; listen "+http2+" http2;", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app))
		return http1, http2, contentOf(s.t, log)
	}},
	{"caddy", "caddy", false, func(s *site) (string, string, func() string) {
		address, log := running(s.caddy("protocols h1 h2\n", "protocols h1 h2c\n"))
		return address, address, log
	}},
	{"traefik", "traefik-json", false, func(s *site) (string, string, func() string) {
		address, log := running(s.traefik())
		return address, address, log
	}},
	{"envoy", "envoy-json", false, func(s *site) (string, string, func() string) {
		address, log := running(s.envoy())
		return address, address, log
	}},
	{"envoy over gRPC", "envoy-json", false, func(s *site) (string, string, func() string) {
		address, log := running(s.envoyGRPC(authorizes))
		return address, address, log
	}},
	{"haproxy", "weir", true, func(s *site) (string, string, func() string) {
		folder := s.t.TempDir()
		url, said, _ := s.haproxy(write(s.t, filepath.Join(folder, "weir.map"), blockedClient+" manual\n"), write(s.t, filepath.Join(folder, "weir-users.map"), ""))
		address, log := running(url, said)
		return address, address, log
	}},
}

// Requests at random, as no browser sends them, hide nothing: of a blocked client the application gets none, nor one that
// the client sends after them; of another client the log has all that the application gets, with their paths, and nothing
// of anyone else; and of a blocked path and a blocked host the application gets none. `make hostile` sends many more,
// and others each time.
func TestRandomRequests(t *testing.T) {
	for _, edge := range randomEdges {
		t.Run(edge.name, func(t *testing.T) {
			t.Parallel()
			s, r := newRandomRequests(t)
			var log func() string
			r.http1, r.http2, log = edge.start(s)
			awaitEdge(t, "http://"+r.http1)
			s.order(blocklist.OrderBlock, blockedClient)
			wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, "http://"+r.http1) })

			r.neverReach("a blocked client", blockedClient, isAny)
			r.areLogged(log, must(request.NewDecoder("none", edge.format, request.Options{})))
			if !edge.lists {
				s.order(blocklist.OrderBlock, "path:/signin")
				r.neverReach("a blocked path", stranger, isSignin)
				s.order(blocklist.OrderBlock, "host:shop.example")
				r.neverReach("a blocked host", stranger, isShop)
			}
		})
	}
}

// randomLogs are other logs of edges, over HTTP/1.
var randomLogs = []struct {
	name, format string
	start        func(s *site) (address string, log func() string)
}{
	{"nginx combined", "combined", nginxLog("", `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`)},
	{"nginx main", "main", nginxLog("", `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"`)},
	{"nginx JSON", "nginx-json", nginxLog("escape=json ", `{"time_iso8601":"$time_iso8601","remote_addr":"$remote_addr","remote_user":"$remote_user","request":"$request","status":$status,"rt":$upstream_response_time,"us":$upstream_status,"http_user_agent":"$http_user_agent","http_x_forwarded_for":"$http_x_forwarded_for","host":"$host"}`)},
	{"nginx its own", `$time_iso8601|$host|"$http_user_agent"|$remote_addr|$status|"$request"`, nginxLog("", `$time_iso8601|$host|"$http_user_agent"|$remote_addr|$status|"$request"`)},
	{"apache common", "common", apacheLog(`%h %l %u %t "%r" %>s %b`)},
	{"apache combined", "combined", apacheLog(`%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`)},
	{"apache vhost_combined", "vhost_combined", apacheLog(`%v:%p %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`)},
	{"apache its own", `"%{User-Agent}i" %h %t %>s "%r"`, apacheLog(`"%{User-Agent}i" %h %t %>s "%r"`)},
	{"haproxy httplog", "haproxy", func(s *site) (string, func() string) { return s.haproxyWith("option httplog") }},
	{"haproxy httpslog", "haproxy", func(s *site) (string, func() string) { return s.haproxyWith("option httpslog") }},
	{"haproxy captured", "haproxy", func(s *site) (string, func() string) {
		return s.haproxyWith("option httplog\n    capture request header User-Agent len 200\n    capture request header X-Forwarded-For len 100")
	}},
	{"envoy as istio", "istio", func(s *site) (string, func() string) { return running(s.envoyText(istioText)) }},
	{"traefik behind a proxy", "traefik-json", func(s *site) (string, func() string) { return s.traefikLog("json") }},
}

func nginxLog(escape, format string) func(*site) (string, func() string) {
	return func(s *site) (string, func() string) {
		address := loopback + ":" + freePort(s.t)
		log := nginx(s.t, snippet(s.t, "nginx.conf", "listen 80;", "listen "+address+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app, "log_format weir '", "log_format weir "+escape+"'",
			`$remote_addr - $weir_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" weir="$weir"`, format))
		return address, contentOf(s.t, log)
	}
}

// apacheLog has Apache pass requests on to the application.
func apacheLog(format string) func(*site) (string, func() string) {
	return func(s *site) (string, func() string) {
		modules := filepath.Join(filepath.Dir(filepath.Dir(program(s.t, "apache2", "apache2-bin"))), "lib/apache2/modules")
		return s.apache(format, "LoadModule proxy_module "+modules+"/mod_proxy.so", "LoadModule proxy_http_module "+modules+"/mod_proxy_http.so", "AllowEncodedSlashes NoDecode",
			"ProxyPass / http://"+s.app+"/")
	}
}

// The same for other logs: they have all that the application gets, with their paths, and nothing of anyone else.
func TestRandomRequestsInLogs(t *testing.T) {
	for _, edge := range randomLogs {
		t.Run(edge.name, func(t *testing.T) {
			t.Parallel()
			s, r := newRandomRequests(t)
			var log func() string
			r.http1, log = edge.start(s)
			awaitEdge(t, "http://"+r.http1+"/ready")
			r.areLogged(log, must(request.NewDecoder("none", edge.format, request.Options{})))
		})
	}
}

// Of requests that nginx answers itself, it does not know the numbers of the application. Their lines are no JSON where
// its log_format has no quotes around these, and they count all the same.
func TestNginxJSONHasWhatNginxAnswers(t *testing.T) {
	for _, escape := range []string{"", "escape=json "} {
		s, _ := newRandomRequests(t)
		address, log := nginxLog(escape, `{"time_iso8601":"$time_iso8601","remote_addr":"$remote_addr","request":"$request","rt":$upstream_response_time,"status":$status,"us":$upstream_status}`)(s)
		awaitEdge(t, "http://"+address+"/ready")
		sent{bytes: "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n"}.send(stranger, address)
		decoder := must(request.NewDecoder("none", "nginx-json", request.Options{}))
		wait.Until(t, "it is in the log", func() bool {
			found := false
			for line := range strings.Lines(log()) {
				var q request.Request
				if err := decoder.Decode(strings.TrimSuffix(line, "\n"), &q); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				found = found || q.IP.String() == stranger && q.Status == 400
			}
			return found
		})
	}
}

func newRandomRequests(t *testing.T) (*site, *randomRequests) {
	t.Helper()
	seed := uint64(number(t, "WEIR_RANDOM_SEED", 1))
	t.Logf("WEIR_RANDOM_SEED=%d", seed)
	s, app := newSite(t), &application{}
	s.app = app.serve(t)
	return s, &randomRequests{site: s, app: app, count: number(t, "WEIR_RANDOM_REQUESTS", 20), random: maker{rand.New(rand.NewPCG(seed, 0))}, client: request.NewClient(nil)}
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A randomRequests sends requests at random to an edge.
type randomRequests struct {
	site         *site
	app          *application
	http1, http2 string
	count        int
	random       maker
	client       *request.Client // finds the client of a log's request
}

func (r *randomRequests) send(from string, s sent) {
	switch {
	case !s.http2:
		s.send(from, r.http1)
	case r.http2 != "":
		s.send(from, r.http2)
	}
}

// neverReach sends requests, and a common one after each. Of both the application must get none that is in question.
func (r *randomRequests) neverReach(what, from string, is func(reached) bool) {
	for range r.count {
		r.neverReaches(what, from, r.random.request(), is)
	}
}

// neverReaches sends one of them. A busy machine may be too slow for a check: what passes has to pass again and again.
func (r *randomRequests) neverReaches(what, from string, s sent, is func(reached) bool) {
	for try := range 20 {
		time.Sleep(time.Duration(try) * 20 * time.Millisecond)
		before := len(r.app.reached(is))
		r.send(from, s)
		r.send(from, common)
		if len(r.app.reached(is)) == before {
			return
		}
	}
	all := r.app.reached(is)
	r.site.t.Errorf("%s: after %s the application got %+v", what, s, all[len(all)-1])
}

// areLogged sends requests of a client that is not blocked.
func (r *randomRequests) areLogged(log func() string, decoder *request.Decoder) {
	t := r.site.t
	before, beforeIn := len(r.app.reached(isAny)), len(r.app.reached(isSignin))
	for range r.count {
		r.send(stranger, r.random.request())
	}
	all, signedIn := r.app.reached(isAny)[before:], r.app.reached(isSignin)[beforeIn:]
	t.Logf("of %d requests the application got %d, and %d of them sign in", r.count, len(all), len(signedIn))

	text := ""
	defer func() {
		if t.Failed() {
			t.Logf("to sign in, the application got %.200q, and the log is\n%s", signedIn, text)
		}
	}()
	wait.Until(t, "all are in the log", func() bool {
		logged, found := 0, 0
		text = log()
		for line := range strings.Lines(text) {
			decoder.DecodeEach(strings.TrimSuffix(line, "\n"), func(q *request.Request, err error) {
				if err != nil {
					return
				}
				r.client.Resolve(q)
				switch q.IP.String() {
				case goodClient, blockedClient:
				case stranger:
					logged++
					if counts, _ := (request.PathForm{}).Normal(q.Path, q.PathDecoded, nil); counts == "/signin" {
						found++
					}
				case balancerAddress: // nginx and Envoy refuse some before they look for the client
					if q.Status < 400 || q.Status > 499 {
						t.Fatalf("counted for the load balancer: %s", line)
					}
				default:
					t.Fatalf("counted for another client: %s", line)
				}
			})
		}
		return logged >= len(all) && found >= len(signedIn)
	})
}
