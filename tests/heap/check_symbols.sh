#!/bin/sh
# check_symbols.sh - what the heap's libraries show and keep.
#
#   check_symbols.sh NM ARCHIVE SHARED
#
# Promises: the archive defines no global name but strata_* and strata__*; the shared library exports
# nothing but strata_heap_*; neither asks libc for the environment or for files; and of the archive,
# only the private jemalloc has writable data.

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

# ASan adds markers of its own to every object.
globals=$("$nm" -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' |
    grep -v -e '^__asan' -e '^__odr_asan' -e '^__ubsan' -e '^__tsan')
[ -n "$globals" ] || { echo "$archive defines nothing" >&2; exit 1; }
echo "$globals" | grep -qx strata_heap_alloc
complain "global names that are not ours" "$(echo "$globals" | grep -v '^strata_' || true)"

exports=$("$nm" -D --defined-only "$shared" | awk 'NF == 3 { print $3 }')
echo "$exports" | grep -qx strata_heap_alloc
complain "exports that are no strata_heap_*" "$(echo "$exports" | grep -v '^strata_heap_' || true)"

# What is written only by the dynamic linker, before any code runs, lies in .data.rel.ro.
writable=$("$nm" -f sysv --defined-only "$archive" | awk -F '|' '
    /^Symbols from/ { member = $0 }
    member !~ /private_jemalloc/ && $7 ~ /^\.(data|bss|tdata|tbss)|^COM/ && $7 !~ /^\.data\.rel\.ro/ {
        print $1, $7
    }' | grep -v -e asan -e '^\.L' || true)
complain "writable data outside the private jemalloc" "$writable"
"$nm" -A --defined-only "$archive" | grep -q 'private_jemalloc.* [bd] ' # the check can see any

asked=$("$nm" -u "$archive" | awk '{ print $NF }' |
    grep -x -e getenv -e secure_getenv -e open -e open64 -e openat -e fopen -e creat -e readlink \
        -e sbrk -e syscall || true)
complain "asks libc for" "$asked"
exit $verdict
