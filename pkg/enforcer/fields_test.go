package enforcer

import (
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A request with very many fields takes much memory. So it is refused, or a check is answered, and its body is not waited
// for.
func TestAHeaderOfVeryManyFieldsDoesNotLast(t *testing.T) {
	server := httptest.NewServer(&Enforcer{})
	defer server.Close()
	for name, field := range map[string]func(int) string{
		"different names": func(i int) string { return fmt.Sprintf("X%d:\r\n", i) },
		"the same name":   func(int) string { return "X:\r\n" },
	} {
		for _, first := range []string{"POST /v1/blocks", "GET /v1/blocklist", "DELETE /v1/blocks"} {
			var fields strings.Builder
			for i := range maxFields + 1 {
				fields.WriteString(field(i))
			}
			c, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n%s\r\n", first, fields.String())
			answer, err := io.ReadAll(c)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") {
				t.Errorf("%s, %s: %.40q, %v", name, first, answer, err)
			}
			c.Close()
		}
	}
}
