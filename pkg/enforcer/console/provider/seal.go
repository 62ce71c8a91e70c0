package provider

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"sync"
	"time"
)

const (
	lasts   = 10 * time.Minute // a log-in, from its beginning to its end
	maxUsed = 10_000
	maxNext = 1000 // bytes of the page to go to; a cookie has about 4 KB
)

// A begun is a log-in that has begun.
type begun struct {
	State, Nonce, Verifier, Next string
	Until                        time.Time
}

// A seal closes and opens the text of cookies. Its key lasts as long as the process.
type seal struct {
	now func() time.Time
	box cipher.AEAD

	mu   *sync.Mutex
	used map[[sha256.Size]byte]time.Time // states of completed log-ins, and when they end
}

func newSeal(now func() time.Time) seal {
	var key [32]byte
	_, _ = rand.Read(key[:])                      // never fails
	block, _ := aes.NewCipher(key[:])             // a key of 32 bytes is one
	box, _ := cipher.NewGCMWithRandomNonce(block) // AES has the right block
	return seal{now: now, box: box, mu: &sync.Mutex{}, used: map[[sha256.Size]byte]time.Time{}}
}

func (s seal) close(b *begun) string {
	if len(b.Next) > maxNext {
		b.Next = ""
	}
	text, _ := json.Marshal(b) // texts and a time
	return base64.RawURLEncoding.EncodeToString(s.box.Seal(nil, nil, text, nil))
}

func (s seal) open(cookie string) (*begun, bool) {
	closed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return nil, false
	}
	text, err := s.box.Open(nil, nil, closed, nil)
	b := &begun{}
	if err != nil || json.Unmarshal(text, b) != nil || !s.now().Before(b.Until) {
		return nil, false
	}
	return b, true
}

// use notes that a log-in is complete, and reports whether it was not before. Only people who have logged in add one; if
// there are too many, further ones are refused until the first end.
func (s seal) use(b *begun) bool {
	id := sha256.Sum256([]byte(b.State))
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.used, func(_ [sha256.Size]byte, until time.Time) bool { return !s.now().Before(until) })
	if _, again := s.used[id]; again || len(s.used) >= maxUsed {
		return false
	}
	s.used[id] = b.Until
	return true
}
