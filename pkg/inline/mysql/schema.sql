-- The tables of Weir's inline limits in MySQL and MariaDB, version 1. The cells are Weir's: a key's window, or what an
-- attempt has counted. Their columns are for people in the views. Tables that are there stay as they are.
CREATE TABLE IF NOT EXISTS weir_inline_cells (
	name    varbinary(512)  NOT NULL PRIMARY KEY,
	version bigint unsigned NOT NULL,
	state   mediumblob      NOT NULL,
	expires bigint          NOT NULL -- milliseconds since 1970
) ENGINE = InnoDB;

CREATE OR REPLACE VIEW weir_inline_keys AS
SELECT
	CONVERT(SUBSTRING(name, 2, LOCATE(X'00', name) - 2) USING utf8mb4) AS `rule`,
	CONVERT(SUBSTRING(name, LOCATE(X'00', name) + 1) USING utf8mb4) AS `key`,
	TIMESTAMPADD(MICROSECOND, LEAST(expires, 253402300799000) * 1000, '1970-01-01') AS expires
FROM weir_inline_cells
WHERE SUBSTRING(name, 1, 1) = 'k' AND expires > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000;

CREATE OR REPLACE VIEW weir_inline_attempts AS
SELECT
	LOWER(HEX(SUBSTRING(name, 2, 16))) AS id,
	TIMESTAMPADD(MICROSECOND, LEAST(expires, 253402300799000) * 1000, '1970-01-01') AS expires
FROM weir_inline_cells
WHERE SUBSTRING(name, 1, 1) = 'a' AND expires > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000;

CREATE TABLE IF NOT EXISTS weir_inline_schema (version integer NOT NULL) ENGINE = InnoDB;
DELETE FROM weir_inline_schema;
INSERT INTO weir_inline_schema VALUES (1);
