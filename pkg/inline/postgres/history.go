package postgres

import (
	"context"
	_ "embed"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/pkg/inline/stored"
)

var _ stored.Reader = (*Backend)(nil)

//go:embed add.sql
var addSQL string

//go:embed settle.sql
var settleSQL string

//go:embed retain.sql
var retainSQL string

// A commit that changes the history too, by whether it adds rows and whether it settles some.
var historySQL = map[[2]bool]string{
	{false, false}: commitSQL,
	{true, false}:  withHistory(addInCommit),
	{false, true}:  withHistory(settleSQL),
	{true, true}:   withHistory(addInCommit, settleSQL),
}

const (
	once           = "ON CONFLICT DO NOTHING"
	historyGoes    = "-- history\n" // into this line of commit.sql
	lastOfCommit   = 7              // its parameters
	historyTimeout = upkeepTimeout  // of one Add
)

var addInCommit = "added AS (\n" + addSQL + "CROSS JOIN verdict WHERE done\n" + once + "\n)\n"

// withHistory is a commit that also does some steps, whose parameters come after its own.
func withHistory(steps ...string) string {
	var all strings.Builder
	last := lastOfCommit
	for _, step := range steps {
		most := last
		all.WriteString(", " + parameter.ReplaceAllStringFunc(step, func(one string) string {
			n, _ := strconv.Atoi(one[1:]) // digits
			most = max(most, last+n)
			return "$" + strconv.Itoa(last+n)
		}))
		last = most
	}
	return strings.Replace(commitSQL, historyGoes, all.String(), 1)
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// historyOf is the statement of a commit, and its parameters after those of the cells.
func historyOf(c *stored.Commit) (statement string, args []any) {
	adds, settles := len(c.Attempts) > 0, len(c.Settlements) > 0
	if adds {
		args = addArgs(c.Attempts)
	}
	if settles {
		args = append(args, settleArgs(c.Settlements)...)
	}
	return historySQL[[2]bool{adds, settles}], args
}

func addArgs(rows []stored.Attempt) []any {
	n := len(rows)
	at, ids, rules, keys, parts := make([]time.Time, n), make([][16]byte, n), make([]string, n), make([]string, n), make([]int16, n)
	costs, verdicts, limits, remaining, stores := make([]int64, n), make([]string, n), make([]string, n), make([]int64, n), make([]*string, n)
	for i := range rows {
		r := &rows[i]
		at[i], ids[i], rules[i], keys[i], parts[i] = time.UnixMilli(r.At), r.ID, storable(r.Rule), storable(r.Key), int16(r.Part)
		costs[i], verdicts[i], limits[i], remaining[i] = r.Cost, r.Verdict, storable(r.Limit), r.Remaining
		if r.Store != "" {
			stores[i] = &r.Store
		}
	}
	return []any{at, ids, rules, keys, parts, costs, verdicts, limits, remaining, stores}
}

func settleArgs(all []stored.Settlement) []any {
	n := len(all)
	ids, rules, keys, at := make([][16]byte, n), make([]string, n), make([]string, n), make([]time.Time, n)
	costs, when, gone := make([]int64, n), make([]time.Time, n), make([]bool, n)
	for i := range all {
		s := &all[i]
		ids[i], rules[i], keys[i], at[i] = s.ID, storable(s.Rule), storable(s.Key), time.UnixMilli(s.At)
		costs[i], when[i], gone[i] = s.Cost, time.UnixMilli(s.When), s.Gone
	}
	return []any{ids, rules, keys, at, costs, when, gone}
}

// storable is a text without what PostgreSQL's texts cannot have. Keys of rules are printable, and stay as they are.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// Add adds rows of the history that no commit writes, on a connection of its own.
func (b *Backend) Add(ctx context.Context, rows []stored.Attempt) error {
	if err := b.tables.Wait(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	_, err := b.adding.Exec(ctx, addSQL+once, addArgs(rows)...)
	return b.noted(err)
}

const rowsSQL = `
SELECT id, rule, key, part, at, cost, verdict, limit_text, remaining, COALESCE(store, ''), settled, settled_at FROM weir_inline_history
WHERE key = ANY($1) AND at >= $2 AND ($3 = '' OR rule = $3) ORDER BY at DESC, id DESC, rule, key, part LIMIT $4`

// Rows are the newest rows of some keys, by the connection of Add.
func (b *Backend) Rows(ctx context.Context, q *stored.Query) (all []stored.Row, err error) {
	if err := b.tables.Wait(ctx); err != nil {
		return nil, err
	}
	keys := make([]string, len(q.Keys))
	for i, key := range q.Keys {
		keys[i] = storable(key)
	}
	found, err := b.adding.Query(ctx, rowsSQL, keys, time.UnixMilli(q.From), storable(q.Rule), q.Most)
	if err != nil {
		return nil, b.noted(err)
	}
	var r stored.Row
	var id [16]byte
	var at time.Time
	var settled *int64
	var settledAt *time.Time
	_, err = pgx.ForEachRow(found, []any{&id, &r.Rule, &r.Key, &r.Part, &at, &r.Cost, &r.Verdict, &r.Limit, &r.Remaining, &r.Store, &settled, &settledAt}, func() error {
		one := r
		if one.ID, one.At = id, at.UnixMilli(); settled != nil && settledAt != nil {
			one.Settled, one.SettledAt = new(*settled), settledAt.UnixMilli()
		}
		all = append(all, one)
		return nil
	})
	return all, b.noted(err)
}
