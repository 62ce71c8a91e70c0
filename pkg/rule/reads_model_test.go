package rule

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"weir/pkg/request"
)

// stripped is a request without the fields that are not read.
func stripped(r *request.Request, names []string) *request.Request {
	left := &request.Request{UnixMilli: r.UnixMilli, IP: r.IP, Bytes: -1}
	for name, copied := range map[string]func(){
		"user": func() { left.User = r.User }, "method": func() { left.Method = r.Method }, "host": func() { left.Host = r.Host },
		"path": func() { left.Path = r.Path }, "query": func() { left.Query = r.Query }, "agent": func() { left.Agent = r.Agent },
		"referrer": func() { left.Referrer = r.Referrer }, "status": func() { left.Status = r.Status }, "bytes": func() { left.Bytes = r.Bytes },
	} {
		if slices.Contains(names, name) {
			copied()
		}
	}
	for _, field := range r.Fields {
		if slices.Contains(names, field.Name) {
			left.Fields = append(left.Fields, field)
		}
	}
	return left
}

// TestUnreadFieldsChangeNothing: random expressions give the same for a request without the fields that are not read.
func TestUnreadFieldsChangeNothing(t *testing.T) {
	g := grower{rand.New(rand.NewPCG(7, 8))}
	const expressions = 3000
	without := 0
	finder := places(t).NewFinder()
	for range expressions {
		text, wanted := g.boolean(1+g.IntN(3)), reflect.Bool
		if g.IntN(3) == 0 {
			text, wanted = g.number(1+g.IntN(3)), reflect.Float64
		}
		e, complaints := compile(text, wanted)
		if complaints != nil {
			continue
		}
		reads := reader{}
		reads.expression(e)
		whole, part := subject{finder: finder}, subject{finder: finder}
		for range 5 {
			r := g.request()
			left := stripped(r, reads.names)
			whole.about(r)
			part.about(left)
			if got, want := answer(e, &part), answer(e, &whole); got != want {
				t.Fatalf("%s, which reads %v, of %+v\nis %s, of %+v %s", text, reads.names, r, want, left, got)
			}
			if !reflect.DeepEqual(r, left) {
				without++
			}
		}
	}
	if without < expressions {
		t.Errorf("only %d requests had less in them", without)
	}
}
