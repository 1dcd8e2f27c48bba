// Package pgserver gives tests and a demo a real PostgreSQL server, wherever they run.
//
// [Start] takes the first that works of a server it is told of (PGLEASE_TEST_DSN), a Docker container, the server
// binaries on the machine, and binaries that it downloads, and says which it took. [Server.Stop] removes everything
// the server left. A Local server can also be crashed, restarted, frozen, and given a standby that can be promoted;
// [StartBouncer] puts a PgBouncer in front of any kind.
//
// If the process ends without Stop, what is left behind depends on the kind: of Local a directory below the temporary
// directory (on Linux the server itself ends with the process; elsewhere it runs on), of Docker a container that ends
// after an hour, of Embedded a running server and its directory, of DSN the databases made by CreateDatabase.
//
// [NotRun] is for checks that the machine has no server for.
package pgserver
