-- The tables of Weir's inline limits in PostgreSQL, version 1. The cells are Weir's: a key's window, or what an attempt
-- has counted. Their columns are for people in the views. Tables that are there stay as they are.
CREATE TABLE IF NOT EXISTS weir_inline_schema (version integer NOT NULL);

CREATE TABLE IF NOT EXISTS weir_inline_cells (
	name    bytea  PRIMARY KEY,
	version bigint NOT NULL,
	state   bytea  NOT NULL,
	expires bigint NOT NULL -- milliseconds since 1970
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

CREATE OR REPLACE VIEW weir_inline_keys AS
SELECT
	encode(substr(name, 2, position('\x00'::bytea IN name) - 2), 'escape') AS rule,
	encode(substr(name, position('\x00'::bytea IN name) + 1), 'escape') AS key,
	to_timestamp(expires / 1000.0) AS expires
FROM weir_inline_cells
WHERE get_byte(name, 0) = ascii('k') AND expires > extract(epoch FROM now()) * 1000;

CREATE OR REPLACE VIEW weir_inline_attempts AS
SELECT encode(substr(name, 2, 16), 'hex') AS id, to_timestamp(expires / 1000.0) AS expires
FROM weir_inline_cells
WHERE get_byte(name, 0) = ascii('a') AND expires > extract(epoch FROM now()) * 1000;

DELETE FROM weir_inline_schema;
INSERT INTO weir_inline_schema VALUES (1);
