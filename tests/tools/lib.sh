# lib.sh - what the scripts here share: run `strata`, and look at what it did.
#
# Sourced with the command and the folder of the helpers (json_get, make_model) as $1 and $2; they
# come from CMakeLists.txt. Every check names itself when it fails and the script goes on; its exit
# status at the end says whether one did.

# shellcheck shell=sh
strata=$1
helpers=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/strata-test-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
status=0
bad=0
checks=0

complain() {
    bad=$((bad + 1))
    printf 'FAILED: %s\n  command: %s\n  status %s, stderr:\n' "$1" "$what" "$status"
    sed 's/^/    /' "$work/err"
}

# run ARGUMENT...: runs strata; $status, $work/out, $work/err.
run() {
    what="strata $*"
    status=0
    "$strata" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
}

# run_limited KIBIBYTES ARGUMENT...: the same with that much address space (RLIMIT_AS).
run_limited() {
    limit=$1
    shift
    what="strata $* (address space limited to $limit KiB)"
    status=0
    (
        # shellcheck disable=SC3045 # dash and bash have it, and nothing portable does
        ulimit -v "$limit"
        exec "$strata" "$@"
    ) >"$work/out" 2>"$work/err" </dev/null || status=$?
}

# expect_status N
expect_status() {
    checks=$((checks + 1))
    if [ "$status" -ne "$1" ]; then
        complain "exit status $1 expected"
    fi
}

# expect_line 'WORDS|WORDS...': exactly one line on stderr, with all of them, and no stdout.
expect_line() {
    checks=$((checks + 1))
    if [ "$(wc -l <"$work/err")" -ne 1 ]; then
        complain "one line on stderr expected"
    fi
    if [ -s "$work/out" ]; then
        complain "nothing on stdout expected"
    fi
    printf '%s\n' "$1" | tr '|' '\n' >"$work/words"
    while IFS= read -r words; do
        if ! grep -qF -e "$words" "$work/err"; then
            complain "stderr should have: $words"
        fi
    done <"$work/words"
}

# refused 'WORDS|WORDS...' ARGUMENT...: exit status 2, one line with all of them.
refused() {
    wanted=$1
    shift
    run "$@"
    expect_status 2
    expect_line "$wanted"
}

# value PATH: what the document on stdout has there; nothing, and a complaint, where it has not.
value() {
    "$helpers/json_get" "$1" <"$work/out" 2>>"$work/err"
}

# expect_value PATH VALUE
expect_value() {
    checks=$((checks + 1))
    if got=$(value "$1"); then
        if [ "$got" != "$2" ]; then
            complain "$1 is $got, expected $2"
        fi
    else
        complain "no $1 in the document"
    fi
}

# expect_at_least PATH N
expect_at_least() {
    checks=$((checks + 1))
    if ! got=$(value "$1"); then
        complain "no $1 in the document"
    elif [ "$got" = null ] || ! awk "BEGIN { exit !($got >= $2) }"; then
        complain "$1 is $got, expected at least $2"
    fi
}

# expect_keys PATH KEY...: the object at PATH has all of them.
expect_keys() {
    at=$1
    shift
    for key in "$@"; do
        checks=$((checks + 1))
        if ! value "$at.$key" >"$work/value"; then
            complain "no $at.$key in the document"
        fi
    done
}

# skip REASON: where CI promised it, a failure.
skip_all() {
    echo "SKIP: $1"
    if [ -n "${CI:-}" ]; then
        exit 1
    fi
    exit 77
}

finish() {
    echo "$checks checks, $bad failed"
    if [ "$checks" -eq 0 ] || [ "$bad" -ne 0 ]; then
        exit 1
    fi
    exit 0
}
