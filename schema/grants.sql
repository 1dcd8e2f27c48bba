-- Least privilege for a role that uses leases and never changes the schema. Run as the owner of the table, with
-- the role's name in place of pglease_worker. DELETE is needed by DeleteExpired alone.
GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE pglease_leases TO pglease_worker;
