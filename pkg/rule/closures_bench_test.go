package rule

import (
	"net/netip"
	"reflect"
	"testing"

	"weir/pkg/request"
)

var benched = map[string]reflect.Kind{
	`path startsWith "/api/" and method != "OPTIONS"`: reflect.Bool,
	`method in ["GET", "HEAD"] and status >= 400`:     reflect.Bool,
	`path matches "^/api/.*[.]css$"`:                  reflect.Bool,
	`inNetwork(ip, "203.0.113.0/24", "10.0.0.0/8")`:   reflect.Bool,
	`bytes / 1024`: reflect.Float64,
}

// The cost of an expression as closures, and in the virtual machine.
func BenchmarkExpression(b *testing.B) {
	r := &request.Request{IP: netip.MustParseAddr("203.0.113.7"), Method: "GET", Path: "/api/orders/17", Status: 404, Bytes: 123456}
	for text, wanted := range benched {
		translated, complaints := compile(text, wanted)
		if complaints != nil || translated.program != nil {
			b.Fatal(text, complaints)
		}
		for name, e := range map[string]*expression{"closures": translated, "machine": inMachine(text, wanted, true)} {
			b.Run(name+"/"+text, func(b *testing.B) {
				var s subject
				b.ReportAllocs()
				for b.Loop() {
					s.about(r)
					if wanted == reflect.Bool {
						e.matches(&s)
					} else {
						e.amount(&s)
					}
				}
			})
		}
	}
}
