#!/bin/sh
# check_symbols.sh - what the heap's libraries show and ask for. What they keep: tests/symbols.
#
#   check_symbols.sh NM ARCHIVE SHARED
#
# Promises: the shared library exports nothing but strata_heap_*; the archive asks libc neither for
# the environment nor for files.

set -eu
nm=$1 archive=$2 shared=$3
verdict=0

# complain WHAT NAMES: fails the test where there are any.
complain() {
    if [ -n "$2" ]; then
        echo "$1:" >&2
        echo "$2" >&2
        verdict=1
    fi
}

exports=$("$nm" -D --defined-only "$shared" | awk 'NF == 3 { print $3 }')
echo "$exports" | grep -qx strata_heap_alloc
complain "exports that are no strata_heap_*" "$(echo "$exports" | grep -v '^strata_heap_' || true)"

asked=$("$nm" -u "$archive" | awk '{ print $NF }' |
    grep -x -e getenv -e secure_getenv -e open -e open64 -e openat -e fopen -e creat -e readlink \
        -e sbrk -e syscall || true)
complain "asks libc for" "$asked"
exit $verdict
