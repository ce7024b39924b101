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
expect_value rows 5
expect_value rows.1.allocator strata
expect_value rows.1.unmaps 1
expect_value rows.3.unmaps 1
expect_at_least rows.0.bytes_returned 16000000
expect_at_least rows.1.bytes_returned 16000000
expect_at_least rows.3.bytes_returned 16000000

run bench load --runs 2 --bytes 8MiB --folder "$work" --json
expect_status 0
expect_value rows 6
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
