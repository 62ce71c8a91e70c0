// Package moto runs moto, which stands in for S3 and SQS as Amazon has them: the bucket logs, whose events go into the
// queue logs. It keeps everything in memory.
package moto

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// Region is that of the bucket and the queue.
const Region = "eu-central-1"

// A Server is a running moto.
type Server struct {
	Endpoint string
	Queue    string // the URL of the queue
	Objects  *s3.Client
	Messages *sqs.Client

	t testing.TB
}

// Start starts a server, with a queue that hides received messages for some seconds.
func Start(t testing.TB, hidden string) *Server {
	t.Helper()
	folder := programs()
	program := filepath.Join(folder, "bin", "moto_server")
	if _, err := os.Stat(program); err != nil {
		real.Missing(t, "moto is missing: pip install --target "+folder+" 'moto[s3,sqs]==5.1.22' flask==3.1.3 flask-cors==6.0.5")
	}
	address := port.Reserve(t, "127.0.0.1")
	host, number, _ := strings.Cut(address, ":")
	command := exec.Command("python3", program, "-H", host, "-p", number)
	command.Env = append(os.Environ(), "PYTHONPATH="+folder)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})

	s := &Server{t: t, Endpoint: "http://" + address}
	login := credentials.NewStaticCredentialsProvider("weir", "weirweir", "")
	s.Objects = s3.New(s3.Options{Region: Region, BaseEndpoint: &s.Endpoint, UsePathStyle: true, Credentials: login})
	s.Messages = sqs.New(sqs.Options{Region: Region, BaseEndpoint: &s.Endpoint, Credentials: login})
	wait.Until(t, "moto to answer", func() bool {
		response, err := http.Get(s.Endpoint + "/moto-api/")
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil
	})
	s.set(hidden)
	return s
}

// programs is where .ci/run installs what is not of Debian.
func programs() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "/root/.cache"
	}
	return filepath.Join(cache, "weir", "edges", "moto")
}

// set makes the bucket and the queue.
func (s *Server) set(hidden string) {
	s.t.Helper()
	ctx := context.Background()
	made, err := s.Messages.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("logs"), Attributes: map[string]string{"VisibilityTimeout": hidden}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Queue = aws.ToString(made.QueueUrl)
	about, err := s.Messages.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &s.Queue, AttributeNames: []sqstypes.QueueAttributeName{"QueueArn"}})
	if err != nil {
		s.t.Fatal(err)
	}
	place := &s3types.CreateBucketConfiguration{LocationConstraint: Region}
	if _, err := s.Objects.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("logs"), CreateBucketConfiguration: place}); err != nil {
		s.t.Fatal(err)
	}
	_, err = s.Objects.PutBucketNotificationConfiguration(ctx, &s3.PutBucketNotificationConfigurationInput{
		Bucket: aws.String("logs"),
		NotificationConfiguration: &s3types.NotificationConfiguration{QueueConfigurations: []s3types.QueueConfiguration{{
			QueueArn: aws.String(about.Attributes["QueueArn"]), Events: []s3types.Event{"s3:ObjectCreated:*"},
		}}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// Put writes an object. S3 writes an event about it into the queue.
func (s *Server) Put(key string, body []byte) {
	s.t.Helper()
	if _, err := s.Objects.PutObject(context.Background(), &s3.PutObjectInput{Bucket: aws.String("logs"), Key: &key, Body: bytes.NewReader(body)}); err != nil {
		s.t.Fatal(err)
	}
}

// Delete deletes an object.
func (s *Server) Delete(key string) {
	s.t.Helper()
	if _, err := s.Objects.DeleteObject(context.Background(), &s3.DeleteObjectInput{Bucket: aws.String("logs"), Key: &key}); err != nil {
		s.t.Fatal(err)
	}
}

// Send writes a message into the queue.
func (s *Server) Send(body string) {
	s.t.Helper()
	if _, err := s.Messages.SendMessage(context.Background(), &sqs.SendMessageInput{QueueUrl: &s.Queue, MessageBody: &body}); err != nil {
		s.t.Fatal(err)
	}
}

// Left is how many messages the queue has, received ones included.
func (s *Server) Left() string {
	s.t.Helper()
	about, err := s.Messages.GetQueueAttributes(context.Background(), &sqs.GetQueueAttributesInput{QueueUrl: &s.Queue, AttributeNames: []sqstypes.QueueAttributeName{"All"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return about.Attributes["ApproximateNumberOfMessages"] + " and " + about.Attributes["ApproximateNumberOfMessagesNotVisible"]
}
