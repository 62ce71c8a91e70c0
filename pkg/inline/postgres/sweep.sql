-- One step of the sweep: the cells after a name, of which those are deleted that have expired.
WITH page AS MATERIALIZED (
	SELECT name, expires FROM weir_inline_cells WHERE name > $1 ORDER BY name LIMIT $2
), clock AS MATERIALIZED (
	SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), gone AS (
	DELETE FROM weir_inline_cells c USING page p, clock
	WHERE c.name = p.name AND p.expires <= now AND c.expires <= now
	RETURNING 1
)
SELECT name, (SELECT count(*) FROM gone) FROM page ORDER BY name DESC LIMIT 1
