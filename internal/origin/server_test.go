package origin

import (
	"errors"
	"testing"
)

func TestServer(t *testing.T) {
	for text, want := range map[string]error{
		"http://127.0.0.1:7421": nil, "https://enforcer.example/weir?a=b@c": nil, "http://[::1]:7421/@": nil,
		"http://me:secret@host:7421": ErrUser, "https://me@host": ErrUser, "http://me:%zz@host": ErrUser, "kafka://me:secret@host": ErrUser,
		"host:7421": ErrServer, "ftp://host": ErrServer, "http://": ErrServer, "": ErrServer, "http://a b": ErrServer,
	} {
		if at, err := Server(text); !errors.Is(err, want) || (at != nil) != (want == nil) {
			t.Errorf("%q: %v, %v", text, at, err)
		}
	}
}
