package main

import (
	"errors"
	"os"
	"strings"
)

// fromVariables says where the connection settings are from if there is no connection string.
const fromVariables = "the PG* variables"

const wantsEscape = "the password has a character that a URL wants escaped: write %2F for /, %3F for ?, %23 for #, %40 for @"

// wrong is the end of a connection string that cannot be read as one. Variables are no place for a URL.
func wrong(from, why string) error {
	if from == fromVariables {
		return usage("%s: %s", from, why)
	}
	return usage("%s: %s: a URL is needed, as postgres://user@host:5432/database, or keywords, as \"host=db user=app dbname=app\"", from, why)
}

// problems are what pgx finds wrong with one setting: a part of its text, the setting, its variable, and our words for it.
var problems = []struct{ text, setting, variable, words string }{
	{"sslmode is invalid", "sslmode", "PGSSLMODE", "the sslmode is not valid: disable, allow, prefer, require, verify-ca or verify-full is needed"},
	{"unable to find service", "service", "PGSERVICE", "the service was not found in the service file"},
	{"failed to read service", "service", "PGSERVICE", "the service file (PGSERVICEFILE, or ~/.pg_service.conf) cannot be read"},
	{"could not match", "port", "PGPORT", "one port is needed, or as many as there are hosts"},
	{"invalid port", "port", "PGPORT", "the port is not valid: a number from 1 to 65535 is needed"},
	{"invalid connect_timeout", "connect_timeout", "PGCONNECT_TIMEOUT", "the connect_timeout is not valid: a number of seconds is needed"},
	{"unknown target_session_attrs", "target_session_attrs", "PGTARGETSESSIONATTRS", "the target_session_attrs is not valid: any, read-write, read-only, primary, standby or prefer-standby is needed"},
	{"unknown channel_binding", "channel_binding", "PGCHANNELBINDING", "the channel_binding is not valid: disable, prefer or require is needed"},
	{"invalid require_auth", "require_auth", "PGREQUIREAUTH", "the require_auth is not valid"},
	{"invalid sslcertmode", "sslcertmode", "PGSSLCERTMODE", "the sslcertmode is not valid"},
	{"min_protocol_version", "min_protocol_version", "PGMINPROTOCOLVERSION", "the min_protocol_version is not valid"},
	{"max_protocol_version", "max_protocol_version", "PGMAXPROTOCOLVERSION", "the max_protocol_version is not valid"},
	{`both "sslcert" and "sslkey"`, "ssl", "PGSSLCERT", "sslcert and sslkey belong together"},
	{"CA file", "sslrootcert", "PGSSLROOTCERT", "the file of sslrootcert cannot be read"},
	{"unable to add CA", "sslrootcert", "PGSSLROOTCERT", "the file of sslrootcert has no certificate"},
	{"sslkey", "sslkey", "PGSSLKEY", "the file of sslkey cannot be read"},
	{"cert", "sslcert", "PGSSLCERT", "the file of sslcert cannot be read"},
	{"default_query_exec_mode", "default_query_exec_mode", "", "the default_query_exec_mode is not valid"},
	{"percent-encoded", "%", "", "a % in it is not followed by two digits of a number to base 16: a % itself is to be written %25"},
}

// parseProblem says what pgx found, without any part of the connection string: neither is its text shown, which quotes it, nor
// that of its cause. A setting that the connection string does not have is one of a variable, and is named so.
func parseProblem(from, dsn string, err error) error {
	text := err.Error()
	if end := strings.LastIndex(text, "`: "); end >= 0 {
		text = text[end:] // behind the connection string
	}
	for _, p := range problems {
		if !strings.Contains(text, p.text) {
			continue
		}
		if p.variable != "" && os.Getenv(p.variable) != "" && !strings.Contains(dsn, p.setting) {
			from = p.variable
		}
		return usage("%s: %s", from, p.words)
	}
	var path *os.PathError
	if errors.As(err, &path) {
		return usage("%s: a file that it names cannot be read (%v)", from, path.Err)
	}
	return wrong(from, "it cannot be read as a connection string")
}
