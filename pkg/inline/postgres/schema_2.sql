-- Version 2: the history of attempts. The rows of one key are side by side, in the order of time.
CREATE TABLE IF NOT EXISTS weir_inline_history (
	at         timestamptz NOT NULL, -- by the database's clock
	id         uuid        NOT NULL, -- of the attempt, which may have rows of several rules
	rule       text        NOT NULL COLLATE "C",
	key        text        NOT NULL COLLATE "C",
	part       smallint    NOT NULL, -- 0, unless the attempt asked the rule several times about the key
	cost       bigint      NOT NULL,
	verdict    text        NOT NULL, -- admitted, refused, shadow, paused, other, failed, known
	limit_text text        NOT NULL, -- the limit that decided
	remaining  bigint      NOT NULL,
	store      text,                 -- allow, refuse or local, where the database did not answer
	settled    bigint,               -- what it has cost, if it was settled
	settled_at timestamptz,
	PRIMARY KEY (key, at, rule, id, part)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX IF NOT EXISTS weir_inline_history_at ON weir_inline_history (at);

UPDATE weir_inline_schema SET version = 2;
