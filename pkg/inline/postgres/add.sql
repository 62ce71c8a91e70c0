INSERT INTO weir_inline_history (at, id, rule, key, part, cost, verdict, limit_text, remaining, store)
SELECT a.* FROM unnest($1::timestamptz[], $2::uuid[], $3::text[], $4::text[], $5::smallint[], $6::bigint[], $7::text[],
	$8::text[], $9::bigint[], $10::text[]) AS a
