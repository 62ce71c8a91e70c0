package kafka

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A broker that wants very many iterations of SCRAM gets an error at once, and takes no processor.
func TestABrokerThatWantsManyIterations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"scram-sha-256", "scram-sha-512"} {
		for iterations, want := range map[string]bool{"4096": true, "16384": true, "1000000000": false, "9999999999999999999999": false} {
			m, err := (&SASL{Mechanism: name, User: "weir", PasswordFile: file}).mechanism()
			if err != nil {
				t.Fatal(err)
			}
			conversation, first, err := m.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, nonce, _ := bytes.Cut(first, []byte("r="))
			ended := make(chan error, 1)
			go func() {
				_, _, err := conversation.Next(t.Context(), []byte("r="+string(nonce)+"x,s=QUJDRA==,i="+iterations))
				ended <- err
			}()
			select {
			case err := <-ended:
				if (err == nil) != want {
					t.Errorf("%s, %s iterations: %v", name, iterations, err)
				}
			case <-time.After(10 * time.Second):
				t.Errorf("%s, %s iterations: it takes 10 s and more", name, iterations)
			}
		}
	}
}
