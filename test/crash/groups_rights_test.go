package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/kafka/kafkatest"
	"weir/test/port"
	"weir/test/real"
)

// An aggregator may not write the hits of group rules: the status has the reason, until it may.
func TestTheStatusNamesAMissingRight(t *testing.T) {
	real.Long(t)
	t.Parallel()
	cluster := kafkatest.Real(t, kafkatest.Options{Secure: true, Guarded: true, Settings: map[string]string{"allow.everyone.if.no.acl.found": "true"}})
	s := newSite(t, 1)
	defer s.file.Close()
	r := riverOn(t, cluster, ownPrefix, partitions, groupRules+fmt.Sprintf("geoip: {databases: [%q]}\n", providers(t)))
	for _, right := range []string{"Describe", "Read"} {
		cluster.Permit(t, r.prefix+"hits", right, true)
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(kafkatest.Password), 0o600); err != nil {
		t.Fatal(err)
	}

	enforcer := port.Reserve(t, "127.0.0.1")
	r.installPart("collector", s, enforcer).start()
	aggregator := r.installPart("aggregator", s, enforcer)
	aggregator.write("weir.yaml", wholeConfig(r.rules, s, enforcer, aggregator.address)+
		fmt.Sprintf("kafka: {brokers: [%s], tls: {ca: %q}, sasl: {mechanism: plain, user: %s, password_file: %q}, prefix: %q, hits: {partitions: %d}, events: {partitions: %d}}\nstore: %s\n",
			strings.Join(cluster.Listener("SASLTLS"), ", "), cluster.Certificates.Authority, kafkatest.User, password, r.prefix, r.partitions, r.partitions, r.store()))
	aggregator.start()
	if _, err := s.file.WriteString(strings.Join(networks(rand.New(rand.NewPCG(1, 2)), 6000), "")); err != nil {
		t.Fatal(err)
	}

	weir := build(t, "weir")
	says := func(text string) func() error {
		return func() error {
			out, _ := exec.Command(weir, "status", "--config", filepath.Join(aggregator.folder, "weir.yaml")).CombinedOutput()
			if !strings.HasPrefix(string(out), text) {
				return fmt.Errorf("%s", out)
			}
			return nil
		}
	}
	r.eventually("the status has the reason", says("Needs attention: what the aggregator sends waits: producing to "+r.prefix+"hits/"))
	cluster.Permit(t, r.prefix+"hits", "Write", true)
	r.eventually("all is well", says("Healthy: "))
}
