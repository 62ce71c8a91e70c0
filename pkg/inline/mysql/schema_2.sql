-- Version 2: the history of attempts. The rows of one key are side by side, in the order of time. Texts are binary, so
-- that each key can be stored, and they compare as bytes. LOWER(HEX(id)) is an id as users see it.
CREATE TABLE IF NOT EXISTS weir_inline_history (
	at         datetime(3)    NOT NULL, -- by the database's clock, in UTC
	id         binary(16)     NOT NULL, -- of the attempt, which may have rows of several rules
	`rule`     varbinary(512) NOT NULL,
	`key`      varbinary(512) NOT NULL,
	part       smallint       NOT NULL, -- 0, unless the attempt asked the rule several times about the key
	cost       bigint         NOT NULL,
	verdict    varbinary(16)  NOT NULL, -- admitted, refused, shadow, paused, other, failed, known
	limit_text varbinary(255) NOT NULL, -- the limit that decided
	remaining  bigint         NOT NULL,
	store      varbinary(16),           -- allow, refuse or local, where the database did not answer
	settled    bigint,                  -- what it has cost, if it was settled
	settled_at datetime(3),
	PRIMARY KEY (`key`, at, `rule`, id, part),
	KEY weir_inline_history_at (at)
) ENGINE = InnoDB;

UPDATE weir_inline_schema SET version = 2;
