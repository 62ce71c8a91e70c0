package bucket

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"weir/internal/amazon"
)

const messagesAtOnce = 10 // as SQS bounds them

// A Queue is a queue of SQS, into which S3 writes what happens to objects.
type Queue struct {
	options Options
	url     string
	client  *sqs.Client // nil: it has to be made
}

var queueHost = regexp.MustCompile(`^sqs\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// NewQueue names a queue by its URL, which also has the address of its server. It does not connect yet.
func NewQueue(text string, o Options) *Queue {
	q := &Queue{options: o, url: text}
	if at, err := url.Parse(text); err == nil {
		q.options.Endpoint = at.Scheme + "://" + at.Host
		if found := queueHost.FindStringSubmatch(at.Host); found != nil {
			q.options.Region = found[1]
		}
	}
	return q
}

// CheckQueue checks the URL of a queue.
func CheckQueue(text string) error {
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil || len(at.Path) < 2 {
		return fmt.Errorf("%q is not the URL of a queue: write https://sqs.REGION.amazonaws.com/ACCOUNT/QUEUE", strings.ReplaceAll(text, "@", "…"))
	}
	return nil
}

func (q *Queue) connect(ctx context.Context) (*sqs.Client, error) {
	if q.client != nil {
		return q.client, nil
	}
	loaded, err := amazon.Load(ctx, &q.options)
	if err != nil {
		return nil, err
	}
	q.client = sqs.NewFromConfig(loaded)
	return q.client, nil
}

// A Message is a message that was received. Others do not receive it for some time.
type Message struct {
	ID      string
	Receipt string // deletes it
	Body    string
}

// Receive returns some messages. It waits up to a second for the first one.
func (q *Queue) Receive(ctx context.Context) (all []Message, err error) {
	client, err := q.connect(ctx)
	if err != nil {
		return nil, err
	}
	out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &q.url, MaxNumberOfMessages: messagesAtOnce, WaitTimeSeconds: 1})
	if err != nil {
		return nil, q.explain(err, "sqs:ReceiveMessage")
	}
	for i := range out.Messages {
		m := &out.Messages[i]
		all = append(all, Message{aws.ToString(m.MessageId), aws.ToString(m.ReceiptHandle), aws.ToString(m.Body)})
	}
	return all, nil
}

// Delete deletes messages by their receipts. It returns those that the server has deleted.
func (q *Queue) Delete(ctx context.Context, receipts []string) (deleted []string, err error) {
	client, err := q.connect(ctx)
	if err != nil {
		return nil, err
	}
	for len(receipts) > 0 {
		some := receipts[:min(len(receipts), messagesAtOnce)]
		receipts = receipts[len(some):]
		input := &sqs.DeleteMessageBatchInput{QueueUrl: &q.url}
		for i := range some {
			input.Entries = append(input.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &some[i]})
		}
		out, err := client.DeleteMessageBatch(ctx, input)
		if err != nil {
			return deleted, q.explain(err, "sqs:DeleteMessage")
		}
		for _, one := range out.Successful {
			if i, err := strconv.Atoi(aws.ToString(one.Id)); err == nil && i >= 0 && i < len(some) {
				deleted = append(deleted, some[i])
			}
		}
	}
	return deleted, nil
}

// State returns about how many messages wait, and for how long others do not receive one that was received.
func (q *Queue) State(ctx context.Context) (waiting int64, hidden time.Duration, err error) {
	client, err := q.connect(ctx)
	if err != nil {
		return 0, 0, err
	}
	out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &q.url, AttributeNames: []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameVisibilityTimeout,
	}})
	if err != nil {
		return 0, 0, q.explain(err, "sqs:GetQueueAttributes")
	}
	waiting, _ = strconv.ParseInt(out.Attributes[string(types.QueueAttributeNameApproximateNumberOfMessages)], 10, 64)
	seconds, _ := strconv.Atoi(out.Attributes[string(types.QueueAttributeNameVisibilityTimeout)])
	return waiting, time.Duration(seconds) * time.Second, nil
}

func (q *Queue) explain(err error, action string) error {
	return explain(err, action+" on "+q.url, func() { q.client = nil })
}
