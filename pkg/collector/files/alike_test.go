package files

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// first writes a line whose first 1,024 bytes are always the same, because its client sends a long user name.
func (b *bench) first(name string) {
	b.T.Helper()
	b.Lines++
	b.Want["per-ip 198.51.100.66"]++
	b.Append(name, fmt.Sprintf("198.51.100.66 - %s [03/Mar/2026:08:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 2 \"-\" \"test\"\n",
		strings.Repeat("A", 1100), b.Lines/60%60, b.Lines%60))
}

// A client makes each log begin with the same 1,024 bytes, at a time at which the log before is not read any more. All
// logs count, each request once, also after they were rotated and compressed, and after a restart.
func TestLogsThatAClientMakesBeginAlike(t *testing.T) {
	b := newBench(t, "access.log")
	heard := b.listen()
	var later time.Duration
	b.pipeline.Now = func() time.Time { return time.Now().Add(later) }
	f := b.family("access.log")
	quiet := func() {
		later += 2 * closeAfter
		f.tidy()
		f.settle(t)
		later += finalAfter
		f.settle(t)
	}

	b.first("access.log")
	b.Log("access.log", 100)
	f.settle(t)
	for n := range 2 {
		b.Rename("access.log", "access.log.1")
		f.settle(t)
		quiet()
		b.first("access.log")
		b.Log("access.log", 20)
		f.settle(t)
		quiet()
		b.await()
		b.Log("access.log", 10)
		f.settle(t)
		b.await()
		b.Compress("access.log.1", ".gz")
		b.Rename("access.log.1.gz", fmt.Sprintf("access.log.%d.gz", 3-n))
		quiet()
		b.await()
	}

	b.stop()
	f = b.family("access.log")
	b.Log("access.log", 10)
	f.settle(t)
	quiet()
	b.await()
	// A file with the inode of a deleted one is taken for that log.
	said := heard.String()
	if strings.Count(said, "only requests that are newer")+strings.Count(said, "lost its end") != 2 {
		t.Error("it is not logged once for each log")
	}
}

// The log of another site begins like a rotated log that is not read any more.
func TestALogThatBeginsLikeThatOfAnotherSite(t *testing.T) {
	b := newBench(t, "shop.log", "blog.log")
	var later time.Duration
	b.pipeline.Now = func() time.Time { return time.Now().Add(later) }
	b.first("shop.log")
	b.Log("shop.log", 100)
	shop := b.family("shop.log")
	shop.settle(t)
	b.Rename("shop.log", "shop.log.1")
	later += 2 * closeAfter
	shop.scan()
	shop.tidy()

	blog := b.source.newFamily(b.Path("blog.log"), shop.began)
	blog.member = b.pipeline.Pace.Join("blog.log", time.Hour)
	b.first("blog.log")
	b.Log("blog.log", 10)
	blog.settle(t)
	later += finalAfter
	blog.settle(t)
	b.await()
	blog.drain(t.Context())
	blog.closeAll()
}

// A person puts the beginning of a log in the place of the log. Nothing counts twice, and new lines count.
func TestTheBeginningOfALogInItsPlace(t *testing.T) {
	b := newBench(t, "access.log")
	var later time.Duration
	b.pipeline.Now = func() time.Time { return time.Now().Add(later) }
	f := b.family("access.log")
	b.Log("access.log", 100)
	f.settle(t)
	b.await()

	text := b.Text("access.log")
	b.Put("access.log", []byte(text[:strings.Index(text[len(text)/2:], "\n")+len(text)/2+1]), 0)
	later += 2 * closeAfter
	f.settle(t)
	f.tidy()
	f.settle(t)
	later += finalAfter
	f.settle(t)
	b.Log("access.log", 10)
	f.settle(t)
	b.await()
}
