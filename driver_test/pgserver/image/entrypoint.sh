#!/bin/bash
# Entrypoint of the image that make.sh makes. It honours the part of the official postgres image that pgserver uses:
# POSTGRES_PASSWORD (required unless POSTGRES_HOST_AUTH_METHOD=trust), POSTGRES_USER (default postgres), POSTGRES_DB
# (default: the user's name), POSTGRES_INITDB_ARGS, PGDATA; arguments that begin with "-" go to postgres.
set -euo pipefail

if [ "${1:0:1}" = - ] || [ $# = 0 ]; then
    set -- postgres "$@"
fi
if [ "$1" != postgres ]; then
    exec "$@"
fi

if [ "$(id -u)" = 0 ]; then
    install -d -m 0700 -o postgres -g postgres "$PGDATA"
    install -d -m 2775 -o postgres -g postgres /var/run/postgresql
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    user=${POSTGRES_USER:-postgres}
    database=${POSTGRES_DB:-$user}
    method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
    if [ -z "${POSTGRES_PASSWORD:-}" ] && [ "$method" != trust ]; then
        echo "entrypoint: set POSTGRES_PASSWORD, or POSTGRES_HOST_AUTH_METHOD=trust" >&2
        exit 1
    fi
    # shellcheck disable=SC2086 # POSTGRES_INITDB_ARGS is a list of words, as in the official image
    initdb --username="$user" --encoding=UTF8 --pwfile=<(printf '%s\n' "${POSTGRES_PASSWORD:-unused}") \
        ${POSTGRES_INITDB_ARGS:-}
    printf 'host all all all %s\n' "$method" >>"$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"

    if [ "$database" != postgres ]; then
        # No TCP while the database is made: a client that gets through may rely on finding it.
        pg_ctl -w start -o "-c listen_addresses='' $(printf '%q ' "${@:2}")"
        PGPASSWORD=${POSTGRES_PASSWORD:-} createdb --username="$user" --maintenance-db=postgres "$database"
        pg_ctl -w -m fast stop
    fi
fi

unset PGPASSWORD POSTGRES_PASSWORD
exec "$@"
