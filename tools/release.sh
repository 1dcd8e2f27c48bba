#!/usr/bin/env bash
# tools/release.sh VERSION tags a release; tools/release.sh --check rehearses it and leaves nothing behind.
#
# On main the modules for users (cmd/*, adapters/*) replace the root module by the folder above them, and go install ...@VERSION
# refuses a go.mod that does. So the root is tagged where it is, and the others on a side commit whose go.mod files require
# that root instead. The hash of the root in their go.sum comes from a module proxy in a folder, made here the way the real ones
# make theirs; the rehearsal installs from it. In bash 3.2, because macOS has that.
set -euo pipefail
cd "$(dirname "$0")/.."
root_module=github.com/pglease/pglease-go
check=
version=${1-}
if [ "$version" = --check ]; then
    check=yes
    version=v0.0.0-rehearsal
elif ! [[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
    echo "a version is needed, as in: make release VERSION=v0.1.0" >&2
    exit 64
elif [ -n "$(git status --porcelain)" ]; then
    echo "there are changes that are not committed: commit them, or stash them" >&2
    exit 1
fi

modules=()
for file in cmd/*/go.mod adapters/*/go.mod; do
    [ -f "$file" ] && modules+=("$(dirname "$file")")
done
base=$(git rev-parse HEAD)
if [ -n "$check" ]; then # what is not committed is rehearsed too
    changed=$(git stash create)
    base=${changed:-$base}
fi
if [ -z "$check" ]; then
    for tag in "$version" "${modules[@]/%//$version}"; do
        git rev-parse -q --verify "refs/tags/$tag" >/dev/null && { echo "the tag $tag is there already" >&2; exit 1; }
    done
fi

tmp=$(mktemp -d)
cleanup() {
    git worktree remove --force "$tmp/side" 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
git worktree add --quiet --detach "$tmp/side" "$base"

# The proxies in the order in which they are asked: ours, this machine's cache, those that are set.
cache=$(go env GOMODCACHE)/cache/download
GOPROXY="file://$tmp/proxy,file://$cache,$(go env GOPROXY)"
GONOSUMDB="$root_module,$root_module/*"
GOFLAGS="-modcacherw -mod=mod"
GOWORK=off
export GOPROXY GONOSUMDB GOFLAGS GOWORK

# publish DIR puts the module in that folder of the side tree into the proxy: the files of a commit, less the modules below.
publish() {
    local dir=$1 module=$root_module at excludes=() file
    [ "$dir" = . ] || module=$root_module/$dir
    at=$tmp/proxy/$module/@v
    mkdir -p "$at"
    cp "$tmp/side/$dir/go.mod" "$at/$version.mod"
    printf '{"Version":"%s","Time":"%s"}' "$version" "$(TZ=UTC git -C "$tmp/side" log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)" >"$at/$version.info"
    echo "$version" >"$at/list"
    while read -r file; do
        [ "$file" = go.mod ] || excludes+=(":(exclude)${file%/go.mod}")
    done < <(cd "$tmp/side/$dir" && git ls-files '*go.mod')
    (cd "$tmp/side/$dir" && git archive --format=zip --prefix="$module@$version/" -o "$at/$version.zip" HEAD -- . ${excludes[@]+"${excludes[@]}"})
}

publish .
for dir in "${modules[@]}"; do
    (
        cd "$tmp/side/$dir"
        go mod edit -dropreplace="$root_module" -require="$root_module@$version"
        GOMODCACHE=$tmp/modcache go mod tidy
        go mod edit -json | grep -q '"Replace": null' || { echo "$dir/go.mod still replaces something" >&2; exit 1; }
        [ -f LICENSE ] || cp "$tmp/side/LICENSE" . # each module's zip is a work of its own
    )
done
git -C "$tmp/side" add --all
git -C "$tmp/side" -c user.name="${GIT_AUTHOR_NAME:-release}" -c user.email="${GIT_AUTHOR_EMAIL:-release@localhost}" \
    commit --quiet -m "Release $version: the modules for users require $root_module $version"
for dir in "${modules[@]}"; do
    publish "$dir"
done

# Into an empty GOPATH, from an empty folder, as a user does.
mkdir "$tmp/user"
cd "$tmp/user"
export GOPATH=$tmp/gopath GOMODCACHE=$tmp/gopath/pkg/mod GOFLAGS=-modcacherw
for dir in "${modules[@]}"; do
    case $dir in
    cmd/*)
        go install "$root_module/$dir@$version"
        said=$("$GOPATH/bin/$(basename "$dir")" version)
        case $said in
        *" $version "*) echo "go install $root_module/$dir@$version: ok, $said" ;;
        *) echo "the installed command says it is $said" >&2; exit 1 ;;
        esac
        ;;
    adapters/*)
        rm -f go.mod go.sum
        go mod init example.com/user >/dev/null 2>&1
        go get "$root_module/$dir@$version"
        go build "$root_module/$dir/..."
        echo "go get $root_module/$dir@$version: ok"
        ;;
    esac
done
cd - >/dev/null

if [ -n "$check" ]; then
    echo "make release-check: ok, ${#modules[@]} modules"
    exit 0
fi
git tag -m "$version" "$version" "$base"
for dir in "${modules[@]}"; do
    git tag -m "$dir $version" "$dir/$version" "$(git -C "$tmp/side" rev-parse HEAD)"
done
echo "tagged; to publish: git push origin $version ${modules[*]/%//$version}"
