package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/exit"
	"weir/pkg/attempts"
	"weir/pkg/inline"
	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/mysql"
	"weir/pkg/inline/postgres"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
	"weir/test/locked"
	"weir/test/sqlserver"
)

// Enforcers without topics keep the attempts in a table only, and weir history shows them.
func TestHistoryOfATable(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		s := sqlserver.Postgres(t)
		b, err := postgres.Open(postgres.Options{URL: s.URL, Create: true, History: time.Hour, Budget: time.Minute, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		historyOfATable(t, b, "postgres: 'postgres://"+s.Addr+"/"+sqlserver.Database+"'")
	})
	t.Run("mariadb", func(t *testing.T) {
		s := sqlserver.MariaDB(t)
		b, err := mysql.Open(mysql.Options{DSN: s.URL, Create: true, History: time.Hour, Budget: time.Minute, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		historyOfATable(t, b, "mysql: 'tcp("+s.Addr+")/"+sqlserver.Database+"'")
	})
}

func historyOfATable(t *testing.T, b stored.History, at string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rules := inlinetest.Rules{perMinute(t, "quota"), perMinute(t, "tokens")}
	s := stored.New(stored.Config{Backend: b, Rule: rules.Find, History: true, Slack: time.Minute})
	defer s.Close()
	var v inline.Verdict
	take := func(wants ...inline.Want) {
		t.Helper()
		if err := s.Take(ctx, &v, wants); err != nil || !v.Admitted {
			t.Fatal(v, err)
		}
	}
	take(inline.Want{Rule: rules[0], Key: []byte("203.0.113.9"), Cost: 1}, inline.Want{Rule: rules[1], Key: []byte("203.0.113.9"), Cost: 3})
	if err := s.SettleAt(ctx, "tokens", v.Attempt, 0); err != nil {
		t.Fatal(err)
	}
	first := v.Attempt.String()
	take(inline.Want{Rule: rules[0], Key: []byte("2001:db8::/64"), Cost: 1})
	refused := stored.Attempt{ID: inline.NewID(v.At), Rule: "quota", Key: "203.0.113.9", At: time.Now().UnixMilli(), Cost: 5, Verdict: attempts.Refused, Limit: "5/min", Remaining: 4}
	if err := b.Add(ctx, []stored.Attempt{refused}); err != nil {
		t.Fatal(err)
	}

	folder := t.TempDir()
	config, password := filepath.Join(folder, "weir.yaml"), filepath.Join(folder, "password")
	text := fmt.Sprintf("data: data\nrules: [{name: quota, key: ip, limits: [5/min], inline: true}]\ninline: {history: 1h, store: {%s, user: %s, password_file: password}}\n", at, sqlserver.User)
	for file, text := range map[string]string{config: text, password: sqlserver.Password} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	history := func(code int, args ...string) []string {
		t.Helper()
		var out, errs locked.Buffer
		if got := run(append([]string{"weir", "history", "--attempts", "--config", config}, args...), strings.NewReader(""), &out, &errs); got != code {
			t.Errorf("exit code %d: %s", got, errs.String())
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}

	lines := history(exit.Done, "203.0.113.9")
	all := strings.Join(lines, "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "  refused  quota 203.0.113.9: refused, 4 of 5/min remain, cost 5") ||
		!strings.Contains(all, "  settled  attempt "+first+", tokens: cost 0") ||
		!strings.Contains(all, "  admitted  quota 203.0.113.9: admitted, 4 of 5/min remain  tokens 203.0.113.9: admitted, 2 of 5/min remain, cost 3") {
		t.Errorf("%s", all)
	}
	if lines := history(exit.Done, "203.0.113.9", "--rule", "tokens", "--json"); len(lines) != 2 || !strings.HasPrefix(lines[1], `{"weir":"attempt","time":"20`) || !strings.Contains(lines[1], `"attempt":"`+first+`","admitted":true,"rules":[{"rule":"tokens"`) {
		t.Errorf("%q", lines)
	}
	if lines := history(exit.Done, "2001:db8::5"); len(lines) != 1 || !strings.Contains(lines[0], "quota 2001:db8::/64: admitted") {
		t.Errorf("%q", lines)
	}
	history(exit.NotMet, "203.0.113.8")
	time.Sleep(5 * time.Millisecond)
	history(exit.NotMet, "203.0.113.9", "--from", "1ms")
}

// perMinute is a rule of 5 a minute.
func perMinute(t *testing.T, name string) *inline.Rule {
	rule := inlinetest.NewRule(t, name, window.Sliding, window.Limit{Hits: 5, Per: time.Minute})
	rule.Limits = []string{"5/min"}
	return rule
}
