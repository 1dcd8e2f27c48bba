#!/usr/bin/env bash
# run.sh checks lease.pml with Spin: as it is, and with one rule taken out at a time, where it must find a violation. It needs spin
# and a C compiler (Debian: apt-get install spin gcc), 4 GiB of memory for all, and a quarter of an hour; with "short" it
# leaves out the two largest.
set -u
cd "$(dirname "$0")" || exit 1
for tool in spin gcc; do
    command -v $tool >/dev/null 2>&1 && continue
    echo "not run: $tool is not installed"
    case ",${PGLEASE_REQUIRE:-}," in *,spin,*) exit 1 ;; esac
    exit 0
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# check WANT WHAT OPTIONS... builds a model and looks at every state that it can reach.
check() {
    local want=$1 what=$2 found start=$SECONDS
    shift 2
    mkdir -p "$work/run" && cp lease.pml "$work/run" && cd "$work/run" || exit 1
    local property=-DSAFETY search=
    case " $* " in *" -DLIVE "*) property= search="-a -f -A" ;; esac
    # shellcheck disable=SC2086
    if ! { spin -a "$@" lease.pml && gcc -w -O2 -DCOLLAPSE $property -o pan pan.c && ./pan $search -m40000000 >out; } >log 2>&1; then
        found="did not run: $(tail -n 1 log)"
    elif grep -q 'errors: 0' out && ! grep -qE 'too small|not completed|out of memory' out; then
        found=holds
    elif grep -qE 'assertion violated|acceptance cycle' out; then
        found=violated
    else
        found="did not end: $(grep -m 1 -E '^(pan|error)' out)"
    fi
    [ "$found" = "$want" ] || { found="$found, and should be: $want" && failed=1; }
    printf '| %s | `%s` | %s | %s | %d s |\n' "$what" "$*" "$found" "$(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' out | head -n 1)" $((SECONDS - start))
    cd - >/dev/null || exit 1
    rm -rf "$work/run"
}

echo '| what | options | result | states | time |'
echo '|---|---|---|---|---|'
check holds 'table, with guarded writes' -DTABLE
check holds 'table and hybrid' -DNO_WRITES
[ "${1:-}" = short ] || check holds 'table and hybrid, with guarded writes'
check holds 'whoever goes on asking is served when the other is dead' -DLIVE -DTABLE
[ "${1:-}" = short ] || check holds 'the same, table and hybrid' -DLIVE
check violated 'without the safety margin' -DTABLE -DNO_WRITES -DNO_MARGIN
check violated 'trust counted from the answer' -DTABLE -DNO_WRITES -DTRUST_FROM_ANSWER
check violated 'releasing whatever term there is' -DTABLE -DNO_WRITES -DRELEASE_ANY
check violated 'writing without a look at the row' -DTABLE -DNO_FENCE
check violated 'CheckTx without its lock' -DTABLE -DFENCE_WITHOUT_LOCK
check violated 'early takeover of any row whose lock is free' -DNO_WRITES -DNO_EVIDENCE
check violated 'early takeover at once' -DNO_WRITES -DNO_NOTICE
exit $failed
