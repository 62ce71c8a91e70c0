-- One step of the sweep of the history: rows from a time on that are too old.
WITH gone AS (
	DELETE FROM weir_inline_history WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM weir_inline_history
		WHERE at >= $1 AND at < clock_timestamp() - $2::bigint * interval '1 millisecond' ORDER BY at LIMIT $3
	))
	RETURNING at
)
SELECT count(*), max(at) FROM gone
