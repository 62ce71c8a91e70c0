package request

import (
	"slices"
	"testing"
)

// Load balancers add fields at the end. An older line, which has fewer, is complete, however long it is: formats are found
// by such lines too. One that ends within a field was cut off.
func TestALineWithFewerOptionalFieldsIsComplete(t *testing.T) {
	const (
		line = `https 2023-09-05T05:35:00.264447Z app/shop-load-balancer/0123456789abcdef 192.0.2.39:1438 10.1.136.193:32081 0.001 0.004 0.000 200 200 1839 229 ` +
			`"POST https://shop.example:443/v1/track HTTP/1.1" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/116.0.0.0 Safari/537.36" ` +
			`ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/shop/0123456789abcdef "Root=1-64f6be04-1556248a707c237b2ea45a98" ` +
			`"shop.example" "arn:aws:acm:eu-central-1:123456789012:certificate/1" 0 2023-09-05T05:35:00.258000Z "waf,forward"`
		later = ` "-" "-" "10.1.136.193:32081" "200" "-" "-" TID_c058d0218cb28142a303b654f4f7c035 "-" "-" "-"`
	)
	for _, of := range []struct {
		end string
		cut bool
	}{
		{"", false}, {` "-" "-"`, false}, {` "-" "-" "10.1.136.193:32081" "200" "-" "-"`, false}, {later, false}, {later[:len(` "-" "-" "10.1.136`)], true},
	} {
		d, err := NewDecoder("none", "alb", Options{})
		if err != nil {
			t.Fatal(err)
		}
		d.DecodeEach(line+of.end, func(r *Request, err error) {
			if err != nil || r.cut != of.cut || r.Agent == "" || !slices.Contains(r.Fields, Field{"actions_executed", "waf,forward"}) {
				t.Errorf("%q: %v, cut %v: %+v", of.end, err, r.cut, r)
			}
		})
		if of.cut {
			continue
		}
		for _, format := range []string{"alb", "auto"} {
			if choice, err := Choose("auto", format, []string{line + of.end}, Options{}); err != nil || choice.Format != "alb" {
				t.Errorf("%q: %s finds %v, %v", of.end, format, choice, err)
			}
		}
	}
}
