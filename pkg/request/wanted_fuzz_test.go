package request

import (
	"strings"
	"testing"
)

// FuzzWanted: for any records of any format and envelope, a decoder for some of the fields agrees with one for all.
func FuzzWanted(f *testing.F) {
	cases := wantedCases(f)
	for i, c := range cases {
		f.Add(uint8(i), strings.Join(c.records, "\n"), "user,path,fields")
		f.Add(uint8(i), strings.Join(c.records, "\n"), "host,weir,upstream_addr,x-a")
	}
	f.Fuzz(func(t *testing.T, which uint8, records, names string) {
		c := cases[int(which)%len(cases)]
		told, twin := c.decoder(t), c.decoder(t)
		for record := range strings.SplitSeq(records, "\n") {
			compareWanted(t, told, twin, record, strings.Split(names, ","))
		}
	})
}
