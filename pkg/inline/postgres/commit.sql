-- One commit: see stored.Backend. It locks the cells in the order of their names, and then takes the time.
WITH want AS (
	SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[])
		WITH ORDINALITY AS w(name, decided, next, state, expires, n)
), locked AS MATERIALIZED (
	SELECT name, version, state, expires FROM weir_inline_cells WHERE name = ANY($1::bytea[]) ORDER BY name FOR UPDATE
), clock AS MATERIALIZED (
	SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now FROM (SELECT count(*) FROM locked) AS after
), present AS MATERIALIZED (
	SELECT w.n, w.decided, l.state, CASE WHEN l.expires > clock.now / 1000 THEN l.version ELSE 0 END AS version
	FROM want w CROSS JOIN clock LEFT JOIN locked l USING (name)
), verdict AS MATERIALIZED (
	SELECT now, now BETWEEN $6 AND $7 AND (SELECT bool_and(version = decided) FROM present) AS done FROM clock
), written AS (
	INSERT INTO weir_inline_cells AS c (name, version, state, expires)
	SELECT name, next, state, expires FROM want CROSS JOIN verdict WHERE done AND next <> 0 ORDER BY name
	ON CONFLICT (name) DO UPDATE SET version = excluded.version, state = excluded.state, expires = excluded.expires
	WHERE c.version = (SELECT l.version FROM locked l WHERE l.name = excluded.name)
	RETURNING 1
)
-- history
SELECT v.now, v.done, NOT v.done OR 1 / (CASE WHEN (SELECT count(*) FROM written) = (SELECT count(*) FROM want WHERE next <> 0) THEN 1 ELSE 0 END) = 1,
	p.version, p.state
FROM verdict v LEFT JOIN present p ON NOT v.done ORDER BY p.n
