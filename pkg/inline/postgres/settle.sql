placed AS MATERIALIZED (
	SELECT s.cost, s.settled_at, s.gone, found.place
	FROM unnest($1::uuid[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[], $6::timestamptz[], $7::boolean[])
		AS s(id, rule, key, at, cost, settled_at, gone)
	CROSS JOIN verdict CROSS JOIN LATERAL (
		SELECT h.ctid AS place FROM weir_inline_history h
		WHERE h.key = s.key AND h.at = s.at AND h.rule = s.rule AND h.id = s.id AND h.verdict = 'admitted' LIMIT 1024
	) found
	WHERE done
), settled AS (
	UPDATE weir_inline_history h SET settled = CASE WHEN p.cost < 0 THEN COALESCE(h.settled, h.cost) ELSE p.cost END, settled_at = p.settled_at
	FROM placed p WHERE h.ctid = p.place AND NOT p.gone
), removed AS (
	DELETE FROM weir_inline_history h USING placed p WHERE h.ctid = p.place AND p.gone
)
