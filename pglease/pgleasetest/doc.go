// Package pgleasetest helps to test code that uses leases, and to test backends.
//
// [Memory] is a backend in memory, for the unit tests of an application: no database, and the tester says when a lease is
// lost or the database is away. [Run] is the suite that every [pglease.Backend] passes, the ones of package pglease on a
// real server included.
//
// Experimental: both may change in any v0 release.
package pgleasetest
