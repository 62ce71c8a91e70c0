package request

import "testing"

// Records as their writers make them, one of each kind.
var benchRecords = map[string]string{
	"nginx":   `{"time_iso8601":"2026-03-01T10:15:30+00:00","remote_addr":"203.0.113.7","remote_user":"alice","request":"GET /api/items?page=2 HTTP/1.1","status":"200","body_bytes_sent":"5316","request_time":"0.012","http_referer":"https://shop.example/start","http_user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0","http_x_forwarded_for":"198.51.100.9"}`,
	"ecs":     `{"@timestamp":"2026-03-01T10:15:30.123Z","ecs":{"version":"8.11.0"},"event":{"dataset":"nginx.access","module":"nginx"},"source":{"address":"203.0.113.7","ip":"203.0.113.7"},"http":{"request":{"method":"GET","referrer":"https://shop.example/start"},"response":{"status_code":200,"body":{"bytes":5316}},"version":"1.1"},"url":{"original":"/api/items?page=2"},"user":{"name":"alice"},"user_agent":{"original":"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"}}`,
	"caddy":   `{"level":"info","ts":1772360130.1234567,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"203.0.113.7","remote_port":"41342","client_ip":"203.0.113.7","proto":"HTTP/2.0","method":"GET","host":"shop.example","uri":"/api/items?page=2","headers":{"User-Agent":["Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"],"Accept-Encoding":["gzip, deflate, br"],"Referer":["https://shop.example/start"]},"tls":{"resumed":false,"version":772,"cipher_suite":4865,"proto":"h2","server_name":"shop.example"}},"bytes_read":0,"user_id":"alice","duration":0.000929675,"size":5316,"status":200,"resp_headers":{"Server":["Caddy"],"Content-Type":["application/json"]}}`,
	"escaped": `{"time_iso8601":"2026-03-01T10:15:30+00:00","remote_addr":"203.0.113.7","remote_user":"al\u00edce","request":"GET \/api\/items?page=2 HTTP\/1.1","status":200,"body_bytes_sent":5316,"http_user_agent":"a \"quoted\" agent"}`,
}

func BenchmarkJSON(b *testing.B) {
	for name, record := range benchRecords {
		for _, wanted := range []struct {
			name   string
			wanted []string
		}{{"wanted", []string{"request_time"}}, {"all", nil}} {
			b.Run(name+"/"+wanted.name, func(b *testing.B) {
				p, err := NewParser("json", Options{})
				if err != nil {
					b.Fatal(err)
				}
				p.Want(wanted.wanted)
				var r Request
				b.SetBytes(int64(len(record)))
				b.ReportAllocs()
				for b.Loop() {
					if err := p.Parse(record, &r); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
			})
		}
	}
}
