#!/usr/bin/env bash
# make.sh [NAME] makes a Docker image of PostgreSQL 15 without pulling one, for machines that reach an apt mirror but no
# image registry. NAME is "name:tag", by default pglease-test-postgres:15. Use it with PGLEASE_TEST_IMAGE=NAME.
#
# Needs root, debootstrap, unshare (util-linux) and a docker daemon. It exits at once if the image exists; it writes
# only below mktemp's directory, which it removes however it ends.
#
# Where no daemon is managed by the system, this line started one (Docker 20.10, overlay2, default bridge):
#   dockerd --data-root /var/tmp/docker-data >/var/tmp/dockerd.log 2>&1 & echo $! >/var/tmp/dockerd.pid
# and this ends it:
#   kill "$(cat /var/tmp/dockerd.pid)"
set -euo pipefail

name=${1:-pglease-test-postgres:15}
suite=bookworm
major=15

if docker image inspect "$name" >/dev/null 2>&1; then
    echo "make.sh: $name exists"
    exit 0
fi
docker version >/dev/null   # says itself what is wrong when no daemon answers

# The mirror is the one this machine's apt uses for the same suite. Asking apt covers both forms of its sources, and
# RELEASE is what a source line says, so "bookworm-security" or a vendor's suite does not match.
mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$suite" '$1 == suite && $2 == "main" { print $3; exit }')
if [ -z "$mirror" ]; then
    echo "make.sh: apt on this machine has no source for $suite main; add one to /etc/apt/sources.list.d" >&2
    exit 1
fi

here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
root=$tmp/root

# The namespaces take down with them whatever a package starts while it is installed, and debootstrap's mounts.
if ! unshare --mount --pid --fork --kill-child --mount-proc \
    debootstrap --variant=minbase --include="postgresql-$major" "$suite" "$root" "$mirror" >"$tmp/log" 2>&1; then
    tail -n 20 "$tmp/log" "$root/debootstrap/debootstrap.log" >&2 || true
    exit 1
fi

# The cluster which Debian's package makes is not used: the entrypoint makes its own, for the user it is given.
rm -rf "$root/var/lib/postgresql/$major" "$root/etc/postgresql/$major"
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/*
install -m 0755 "$here/entrypoint.sh" "$root/usr/local/bin/entrypoint.sh"

tar --numeric-owner -C "$root" -c . | docker import \
    --change "ENV PATH=/usr/lib/postgresql/$major/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    --change 'ENV PGDATA=/var/lib/postgresql/data' \
    --change 'ENV LANG=C.UTF-8' \
    --change 'ENTRYPOINT ["/usr/local/bin/entrypoint.sh"]' \
    --change 'CMD ["postgres"]' \
    --change 'EXPOSE 5432' \
    - "$name" >/dev/null
echo "make.sh: $name made from $mirror"
