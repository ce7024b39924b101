#!/bin/sh
# test_bench.sh - `strata bench`: its rows are all there, with figures that can be true. How good
# they are is no test's business: other programs run beside this one.

set -u
# shellcheck source=tests/tools/lib.sh
. "$(dirname "$0")/lib.sh"

row_keys='bench workload allocator ns_per_op seconds tlb_shootdowns bytes_returned peak_bytes
    ratio_to_limit ratio_to_strata runs spread'

run bench alloc --runs 3 --json
expect_status 0
expect_keys . machine rows
expect_keys machine cpu cores kernel page_bytes memory_bytes
expect_value rows 8
row=0
for allocator in limit strata-arena limit-again strata-arena-exported strata-lane strata-heap \
    strata-heap-lane glibc; do
    # shellcheck disable=SC2086 # words
    expect_keys "rows.$row" $row_keys
    expect_value "rows.$row.allocator" "$allocator"
    expect_value "rows.$row.bench" alloc
    expect_value "rows.$row.runs" 3
    # Nothing was left out by the compiler: ten cycles a nanosecond do not exist.
    expect_at_least "rows.$row.ns_per_op" 0.1
    row=$((row + 1))
done
expect_value rows.0.ratio_to_limit 1
expect_value rows.1.ratio_to_strata 1

run bench release --runs 2 --bytes 16MiB --json
expect_status 0
expect_value rows 7
row=0
for allocator in limit strata limit-again limit strata limit-again glibc; do
    expect_value "rows.$row.allocator" "$allocator"
    if [ "$allocator" != glibc ]; then
        expect_value "rows.$row.unmaps" 1
        expect_at_least "rows.$row.bytes_returned" 16000000
    fi
    row=$((row + 1))
done

run bench load --runs 2 --bytes 8MiB --folder "$work" --json
expect_status 0
expect_value rows 7
expect_value rows.5.allocator limit-again
expect_value rows.5.workload 'allocate and read'
expect_value rows.1.allocator strata
expect_at_least rows.1.seconds 0.00001
expect_value rows.4.workload 'allocate and read'
checks=$((checks + 1))
for left in "$work"/strata-bench*; do
    if [ -e "$left" ]; then
        complain "the bench left its file behind"
    fi
done

run bench alloc release --runs 1 --bytes 4MiB
expect_status 0
grep -q 'strata-arena-exported' "$work/out" || complain "a table expected"
[ "$(grep -c '^to limit, to strata: .*; spread: ' "$work/out")" -eq 2 ] ||
    complain "a line about the columns below each table"
if grep -q '^warning' "$work/out"; then
    complain "one run has no spread to warn of"
fi
run bench --help
grep -q 'limit-again' "$work/out" || complain "the help has no word about limit-again"
# The warning goes with the figures: some row of these very short runs is above 20 %, or none is.
run bench release --runs 8 --bytes 2MiB
expect_status 0
wide=$(sed -n 's/.* \([0-9.]*\) %$/\1/p' "$work/out" |
    awk '$1 >= 20.05 { n++ } END { print n + 0 }')
warned=$(grep -c '^warning: a spread above 20 %' "$work/out")
checks=$((checks + 1))
if [ "$warned" -ne "$((wide > 0))" ]; then
    complain "$wide rows above 20 %, and $warned warnings"
fi
refused '--folder: ' bench load --bytes 8MiB --folder "$work/none"
refused '--bytes' bench load --bytes 1TiB --folder "$work"

# An address space that is too small is the environment's fault, said with the limit's name.
if [ -z "${STRATA_TEST_SANITIZED:-}" ]; then
    for bench in alloc load; do
        run_limited 131072 bench --runs 1 --bytes 8MiB "$bench"
        expect_status 2
        expect_line "$bench: |RLIMIT_AS"
    done
fi

finish
