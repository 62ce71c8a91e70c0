package kafkatest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// guarded are the settings of brokers that check rights. A client without TLS and SASL has all rights.
var guarded = map[string]string{
	"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
	"super.users":           "User:ANONYMOUS",
}

// Permit gives User a right for a topic, or takes it away: Describe, Read.
func (c *Cluster) Permit(t testing.TB, topic, right string, is bool) {
	t.Helper()
	operation, err := kmsg.ParseACLOperation(right)
	if err != nil {
		t.Fatal(err)
	}

	c.asked(t, func(ctx context.Context, client *kgo.Client) error {
		if !is {
			filter := kmsg.DeleteACLsRequestFilter{ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: &topic,
				ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral, Operation: operation, PermissionType: kmsg.ACLPermissionTypeAllow}
			request := kmsg.NewPtrDeleteACLsRequest()
			request.Filters = []kmsg.DeleteACLsRequestFilter{filter}
			response, err := request.RequestWith(ctx, client)
			if err != nil {
				return err
			}
			return kerr.ErrorForCode(response.Results[0].ErrorCode)
		}

		request := kmsg.NewPtrCreateACLsRequest()
		request.Creations = []kmsg.CreateACLsRequestCreation{{ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: topic,
			ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral, Principal: "User:" + User, Host: "*", Operation: operation, PermissionType: kmsg.ACLPermissionTypeAllow}}
		response, err := request.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(response.Results[0].ErrorCode)
	})
}

// Content describes all topics, with their ids, extents and settings, and all groups: what a reader must not change.
func (c *Cluster) Content(t testing.TB) (text string) {
	t.Helper()
	c.asked(t, func(ctx context.Context, client *kgo.Client) error {
		var lines []string
		groups, err := kmsg.NewPtrListGroupsRequest().RequestWith(ctx, client)
		if err != nil {
			return err
		}
		for _, group := range groups.Groups {
			lines = append(lines, "group "+group.Group)
		}

		all := kmsg.NewPtrMetadataRequest()
		all.Topics = nil
		topics, err := all.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		for _, topic := range topics.Topics {
			settings := kmsg.NewPtrDescribeConfigsRequest()
			settings.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: *topic.Topic}}
			found, err := settings.RequestWith(ctx, client)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("topic %s %x:", *topic.Topic, topic.TopicID)
			for _, setting := range found.Resources[0].Configs {
				if setting.Source == kmsg.ConfigSourceDynamicTopicConfig && setting.Value != nil {
					text += fmt.Sprintf(" %s=%s", setting.Name, *setting.Value)
				}
			}
			for number := range topic.Partitions {
				end, err := endOf(ctx, client, *topic.Topic, int32(number))
				if err != nil {
					return err
				}
				text += fmt.Sprintf(" %d", end)
			}
			lines = append(lines, text)
		}
		slices.Sort(lines)
		text = strings.Join(lines, "\n")
		return nil
	})
	return text
}

func endOf(ctx context.Context, client *kgo.Client, topic string, partition int32) (int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	of := kmsg.NewListOffsetsRequestTopicPartition()
	of.Partition, of.Timestamp = partition, -1
	request.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{of}}}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	answer := response.Topics[0].Partitions[0]
	return answer.Offset, kerr.ErrorForCode(answer.ErrorCode)
}

// asked calls a function with a client that may do everything.
func (c *Cluster) asked(t testing.TB, ask func(context.Context, *kgo.Client) error) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addresses()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := ask(ctx, client); err != nil {
		t.Fatal(err)
	}
}
