// Package s3 runs a real server of S3 for tests, versitygw, which keeps objects as files.
package s3

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// The region, the user and the secret of all servers.
const (
	Region = "us-east-1"
	User   = "weir"
	Secret = "weirweir"
)

// A Server is a server with a bucket named logs.
type Server struct {
	Endpoint string
	Folder   string
	Client   *s3.Client

	t       testing.TB
	program string
	address string
	secret  string
	command *exec.Cmd
}

// Start starts a server.
func Start(t testing.TB) *Server {
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		real.Missing(t, "versitygw is missing: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
	}
	s := &Server{t: t, program: program, address: port.Reserve(t, "127.0.0.1"), Folder: t.TempDir(), secret: Secret}
	s.Endpoint = "http://" + s.address
	s.Restart()
	t.Cleanup(s.Kill)
	s.MakeBucket()
	return s
}

// Restart starts the server after Kill, and returns when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.command = exec.Command(s.program, "--access", User, "--secret", s.secret, "--region", Region, "--port", s.address, "--quiet", "posix", s.Folder)
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.Client = s3.New(s3.Options{
		Region: Region, BaseEndpoint: &s.Endpoint, UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(User, s.secret, ""),
		HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}},
	})
	wait.Until(s.t, "versitygw to answer", func() bool {
		_, err := s.Client.ListBuckets(s.t.Context(), &s3.ListBucketsInput{})
		return err == nil
	})
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() {
	if s.command != nil {
		_ = s.command.Process.Kill()
		_ = s.command.Wait()
		s.command = nil
	}
}

// ChangeSecret restarts the server with another secret.
func (s *Server) ChangeSecret(secret string) {
	s.t.Helper()
	s.Kill()
	s.secret = secret
	s.Restart()
}

// MakeBucket makes the bucket logs.
func (s *Server) MakeBucket() {
	s.t.Helper()
	if _, err := s.Client.CreateBucket(s.t.Context(), &s3.CreateBucketInput{Bucket: aws.String("logs")}); err != nil {
		s.t.Fatal(err)
	}
}

// DeleteBucket deletes the bucket with its objects.
func (s *Server) DeleteBucket() {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.Folder, "logs")); err != nil {
		s.t.Fatal(err)
	}
}

// Put writes an object.
func (s *Server) Put(key string, body []byte) (etag string) {
	s.t.Helper()
	out, err := s.Client.PutObject(s.t.Context(), &s3.PutObjectInput{Bucket: aws.String("logs"), Key: &key, Body: bytes.NewReader(body)})
	if err != nil {
		s.t.Error(err)
		return ""
	}
	return strings.Trim(aws.ToString(out.ETag), `"`)
}

// PutAll writes objects, some at the same time.
func (s *Server) PutAll(keys []string, body func(key string) []byte) {
	s.t.Helper()
	var writing sync.WaitGroup
	defer writing.Wait()
	free := make(chan struct{}, 8)
	for _, key := range keys {
		free <- struct{}{}
		of := body(key)
		writing.Go(func() {
			s.Put(key, of)
			<-free
		})
	}
}

// WrittenAt sets the time at which an object was written.
func (s *Server) WrittenAt(key string, at time.Time) {
	s.t.Helper()
	if err := os.Chtimes(filepath.Join(s.Folder, "logs", key), at, at); err != nil {
		s.t.Fatal(err)
	}
}

// Move has an object appear under another key, with its time.
func (s *Server) Move(from, to string) {
	s.t.Helper()
	if err := os.Rename(filepath.Join(s.Folder, "logs", from), filepath.Join(s.Folder, "logs", to)); err != nil {
		s.t.Fatal(err)
	}
}
