package request_test

import (
	"strings"
	"testing"

	"weir/pkg/request"
)

// The fields of a format are those that its lines fill; where lines decide, they are not known before.
func TestFieldsOfAFormat(t *testing.T) {
	for _, c := range []struct {
		format, want string
		fields       map[string]string
	}{
		{format: "combined", want: "agent bytes host ip method path query referrer remote_logname status user"},
		{format: `$remote_addr [$time_local] "$request" $status $http_x_api_key`, want: "host http_x_api_key ip method path query status"},
		{format: `$remote_addr [$time_local] "$request" $status $http_x_user`, fields: map[string]string{"user": "http_x_user"}, want: "host ip method path query status user"},
		{format: `%h %t "%r" %>s %{X-Tenant}i`, want: "host http_x_tenant ip method path query status"},
		{format: "json", want: "not known"},
		{format: "json", fields: map[string]string{"tenant": "jwt.tenant"}, want: "tenant, not known"},
		{format: "auto", want: "not known"},
		{format: "iis", want: "not known"},
		{format: "#Fields: date time c-ip", want: "not known"},
		{format: "haproxy", want: "not known"},
		{format: "attempts", want: "not known"},
		{format: "$nonsense", want: "not known"},
	} {
		names, complete := request.FieldsOf(c.format, request.Options{Fields: c.fields})
		got := strings.Join(names, " ")
		if !complete {
			got = strings.TrimPrefix(got+", not known", ", ")
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.format, got, c.want)
		}
	}
}

// Each field of a request that a format's lines give is among the fields of the format.
func TestLinesHaveNoFieldsBesides(t *testing.T) {
	for format, line := range map[string]string{
		"combined":      `203.0.113.7 - alice [17/May/2015:10:05:03 +0000] "GET http://shop.example/a?b=c HTTP/1.1" 200 12 "r" "a"`,
		"combined-plus": `203.0.113.7 - alice [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 12 "r" "a" more words`,
		"main":          `203.0.113.7 - alice [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 12 "r" "a" "198.51.100.1"`,
	} {
		names, complete := request.FieldsOf(format, request.Options{})
		parser, err := request.NewParser(format, request.Options{})
		if err != nil || !complete {
			t.Fatal(format, err)
		}
		var r request.Request
		if err := parser.Parse(line, &r); err != nil {
			t.Fatal(format, err)
		}
		has := map[string]bool{}
		for _, name := range names {
			has[name] = true
		}
		for _, name := range []string{"ip", "user", "method", "host", "path", "query", "status", "bytes", "agent", "referrer"} {
			if r.Has(name) && !has[name] {
				t.Errorf("%s: the line has %s, and the format has %v", format, name, names)
			}
		}
		for _, f := range r.Fields {
			if !has[f.Name] {
				t.Errorf("%s: the line has %s, and the format has %v", format, f.Name, names)
			}
		}
	}
}
