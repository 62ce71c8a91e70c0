package daemon

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
)

// With two enforcers on Apache Kafka, verdicts reach both. A manual entry is active at the asked enforcer before its answer,
// and at the other soon after. While Kafka is stopped it is active at the asked enforcer and its followers, and at the other
// when Kafka is back.
func TestEnforcersOnKafka(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Real(t, kafkatest.Options{})
	brokers := cluster.Addresses()
	yaml := fmt.Sprintf("kafka: {brokers: [%q]}", brokers[0])
	one, other := newEdge(t, yaml, "").start(), newEdge(t, yaml, "").start()
	p := newPublisher(t, kafka.Config{Brokers: brokers, Prefix: "weir."}, one.process.Config)
	p.block("203.0.113.7")
	p.marks()
	for _, e := range []*edge{one, other} {
		e.await("ready", e.ready)
		e.await("blocked", func() bool { return e.check("203.0.113.7") == http.StatusTooManyRequests })
	}
	p.block("203.0.113.8")
	for _, e := range []*edge{one, other} {
		e.await("blocked", func() bool { return e.check("203.0.113.8") == http.StatusTooManyRequests })
	}
	one.await("ordered, and in Kafka when it is answered", func() bool { // the enforcer waits half a second for Kafka
		return one.order("POST", "/v1/blocks", `{"target":"198.51.100.0/24","why":"scraper"}`)
	})
	if code := one.check("198.51.100.7"); code != http.StatusTooManyRequests {
		t.Errorf("when it is answered: %d", code)
	}
	began := time.Now()
	other.await("in force at the other", func() bool { return other.check("198.51.100.7") == http.StatusTooManyRequests })
	t.Logf("an order was in force at the other enforcer %s after the answer", time.Since(began).Round(time.Millisecond))

	follower := newFollower(t, one)
	cluster.StopBroker(0)
	if one.order("DELETE", "/v1/blocks?key=203.0.113.7&why=customer", "") {
		t.Error("Kafka has it, and it is stopped")
	}
	if code := one.check("203.0.113.7"); code != http.StatusOK {
		t.Errorf("unblocked without Kafka: %d", code)
	}
	follower.await("in force at who follows", func() bool { return follower.check("203.0.113.7") == http.StatusOK })
	if !one.ready() || !other.ready() || other.check("203.0.113.8") != http.StatusTooManyRequests {
		t.Error("without Kafka they do not serve what they have")
	}
	if err := cluster.StartBroker(0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cluster.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	one.await("sent", func() bool { waiting, _ := one.waiting(); return waiting == 0 })
	other.await("in force at the other", func() bool { return other.check("203.0.113.7") == http.StatusOK })
}
