// Package schema holds the DDL of the lease table as plain SQL, for migration tools and for Client.EnsureSchema.
package schema

import "embed"

// FS holds the schema's versions in their order (001_leases.sql is the whole of version 1) and grants.sql, the rights
// of a role that only uses leases.
//
//go:embed *.sql
var FS embed.FS

// Leases is 001_leases.sql: it creates the lease table, or upgrades the table of the Python package, and changes
// nothing where that has happened. It may be run any number of times, and as one string of several statements.
//
//go:embed 001_leases.sql
var Leases string
