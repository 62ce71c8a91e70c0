package daemon

import (
	"context"
	"sync"
	"sync/atomic"

	"weir/internal/topic"
	"weir/pkg/collector/witness"
	"weir/pkg/enforcer/proof"
	"weir/pkg/evidence"
	"weir/pkg/rule"
)

// A proving is the evidence of a collector: its ring, and what sends it. The zero value has none.
type proving struct {
	ring    *evidence.Ring // nil without evidence
	client  topic.Log
	rules   atomic.Pointer[rule.Set]
	witness *witness.Witness
}

// openRing makes the ring, and the client for the topics. These have a client of their own: a user who may not read the
// events must still be able to count.
func (v *proving) openRing(p *Process) (err error) {
	if p.Config.Collector.Evidence == 0 {
		return nil
	}
	v.ring = evidence.NewRing(int(p.Config.Collector.Evidence))
	v.rules.Store(p.Config.RuleSet)
	v.client, err = p.openLog(EventsTopic(p.Config).Name, EvidenceTopic(p.Config).Name)
	return err
}

// openWitness makes what sends the evidence of the collector with that id.
func (v *proving) openWitness(p *Process, id string) {
	if v.ring == nil {
		return
	}
	v.witness = witness.New(witness.Config{
		Log: v.client, Events: EventsTopic(p.Config).Name, Evidence: EvidenceTopic(p.Config), Ring: v.ring, Rules: v.rules.Load, Collector: id,
		Logger: p.Logger, Metrics: p.Metrics,
	})
}

func (v *proving) close() {
	if v.client != nil {
		v.client.Close()
	}
}

// Run reads the sources until the context is done. Meanwhile it sends evidence and the ends of requests.
func (r *RunningCollector) Run(ctx context.Context) error {
	sending, stop := context.WithCancel(ctx)
	ending, stopEnds := context.WithCancel(context.WithoutCancel(ctx)) // until the last line is read
	var running sync.WaitGroup
	if r.proving.witness != nil {
		running.Go(func() { r.proving.witness.Run(sending) })
	}
	if r.ends != nil {
		running.Go(func() { r.ends.Run(ending) })
	}
	err := r.Collector.Run(ctx)
	stop()
	stopEnds()
	running.Wait()
	return err
}

// openProofs makes the store of evidence for an enforcer that reads the topics; nil for others.
func (r *RunningEnforcer) openProofs() *proof.Store {
	p, c := r.process, r.process.Config
	if c.Enforcer.Evidence == 0 || c.Enforcer.Follow != followKafka || r.client == nil {
		return nil
	}
	return proof.New(proof.Config{Log: r.client, Topic: EvidenceTopic(c), Bytes: int(c.Enforcer.Evidence), Logger: p.Logger, Metrics: p.Metrics})
}
