#!/bin/sh
# test_replay.sh - `strata replay`: the committed traces replay without one bad block in Strata and
# in glibc, and a malformed one is refused with its line.

set -u
# shellcheck source=tests/tools/lib.sh
. "$(dirname "$0")/lib.sh"
traces=$3

# replays TRACE EVENTS PEAK RELEASES
replays() {
    for allocator in strata glibc; do
        run replay --json --allocator "$allocator" "$traces/$1"
        expect_status 0
        if [ -s "$work/err" ]; then
            complain "nothing on stderr expected"
        fi
        expect_keys . trace allocator events bad ns_per_event peak_live_bytes peak_resident_bytes \
            teardown_seconds tlb_shootdowns
        expect_value allocator "$allocator"
        expect_value events "$2"
        expect_value bad 0
        expect_value peak_live_bytes "$3"
    done
    run replay --json "$traces/$1"
    expect_value releases "$4"
    expect_value releases.0.status ok
    expect_value releases.0.verdict verified
    expect_value releases.0.bytes_held_after 0
}
replays ort-rec-hook.csv.gz 4306 18935772 1
replays ort-multi3-hook.csv.gz 2542 36116100 3
replays llama-spm-hook.csv.gz 30 42440960 1

# Several traces: an array. For people: a line each.
run replay --json "$traces/llama-spm-hook.csv.gz" "$traces/ort-rec-hook.csv.gz"
expect_status 0
expect_value . 2
expect_value 1.bad 0
run replay "$traces/llama-spm-hook.csv.gz"
expect_status 0
grep -q '30 events, 0 bad' "$work/out" || complain "a line with the events expected"

# Plain text replays as well; sizes of 0, large alignments, models, blocks that are never freed.
printf '%s\n' K,1,,load m,1,,0 m,1,1,0 a,1,1,100,4096 v,1,,1000,3 m,1,,7,3 f,1,,2,3 f,1,,4 R,1,,9 \
    >"$work/odd.csv"
for allocator in strata glibc; do
    run replay --json --allocator "$allocator" "$work/odd.csv"
    expect_status 0
    expect_value bad 0
    expect_value events 8
    expect_value left_live 4
done
expect_value peak_live_bytes 1107

# A trace may number its models with gaps: each release is the one of its number.
printf '%s\n' m,1,,16 m,1,,32,2 m,1,,64,15 >"$work/gaps.csv"
run replay --json "$work/gaps.csv"
expect_status 0
expect_value releases 3
expect_value releases.0.label 'model 0'
expect_value releases.1.label 'model 2'
expect_value releases.2.label 'model 15'
run replay "$work/gaps.csv"
for number in 0 2 15; do
    checks=$((checks + 1))
    [ "$(grep -c "^model $number: " "$work/out")" -eq 2 ] || complain "two lines for model $number"
done

# An address space that is too small is the environment's fault, said with the limit's name.
if [ -z "${STRATA_TEST_SANITIZED:-}" ]; then
    run_limited 131072 replay --json "$work/gaps.csv"
    expect_status 2
    expect_line 'gaps.csv: |RLIMIT_AS'
fi

# What is bad is found: an allocator that hands out a block twice, at odd addresses, or one that its
# owner's neighbour writes into. (A sanitizer brings an allocator of its own.)
caught() {
    printf '%b' "$2" >"$work/caught.csv"
    what="strata replay --allocator glibc, with an allocator that hands out $1"
    status=0
    LD_PRELOAD=$helpers/libhostile_malloc.so "$strata" replay --json --allocator glibc \
        "$work/caught.csv" >"$work/out" 2>"$work/err" || status=$?
    expect_status 1
    expect_value bad "$3"
    grep -q "$3 blocks were bad" "$work/err" || complain "the bad blocks are not said"
}
if [ -z "${STRATA_TEST_SANITIZED:-}" ]; then
    caught 'good blocks and a misaligned one' 'm,1,,4096\nm,1,,12341\nf,1,,1\nf,1,,2\n' 1
    # The second of the two is refused by the tree, and the first has lost its contents.
    caught 'a block twice' 'm,1,,12342\nm,1,,12342\nf,1,,2\nf,1,,1\n' 2
    caught 'a block that is freed late' 'm,1,,12342\nm,1,,12342\n' 2
    caught 'a block that changes' 'm,1,,12343\nm,1,,64\nm,1,,12344\nf,1,,3\n' 1
fi

# malformed 'LINE: WORDS' TEXT: the line that is wrong is named, and what would be right.
malformed() {
    printf '%b' "$2" >"$work/bad.csv"
    refused "$work/bad.csv: |$1" replay --json "$work/bad.csv"
}
malformed 'no allocation' ''
malformed 'no allocation' 'K,1,,load\n'
malformed 'line 2: |operation "q"' 'm,1,,8\nq,1,,8\n'
malformed 'line 1: |operation' ',,,\n'
malformed 'line 1: |operation "mm"' 'mm,1,,8\n'
malformed 'line 1: |size' 'm,1,,\n'
malformed 'line 1: |size "-8"' 'm,1,,-8\n'
malformed 'line 1: |size "8x"' 'm,1,,8x\n'
malformed 'line 1: |size' 'm,1,,18446744073709551617\n'
malformed 'line 1: |size' 'm,1,,274877906945\n'
malformed 'line 1: |alignment "24"' 'a,1,,8,24\n'
malformed 'line 1: |alignment ""' 'a,1,,8\n'
malformed 'line 1: |alignment' 'a,1,,8,2147483648\n'
malformed 'line 1: |model "16"' 'm,1,,8,16\n'
malformed 'line 1: |thread' 'm,x,,8\n'
malformed 'line 1: |time' 'm,1,x,8\n'
malformed 'line 1: |more than 5 fields' 'm,1,,8,1,1\n'
malformed 'line 1: |object "1"' 'f,1,,1\n'
malformed 'line 2: |object "2"' 'm,1,,8\nf,1,,2\n'
malformed 'line 2: |object "0"' 'm,1,,8\nf,1,,0\n'
malformed 'line 3: |freed before' 'm,1,,8\nf,1,,1\nf,1,,1\n'
malformed 'line 1: |longer than' "m,1,,8$(printf '%300s' '')\n"
malformed 'line 1: ' 'm,1,\0000,8\n'
# A block larger than the machine is refused, not tried.
malformed 'available' 'm,1,,274877906944\nm,1,,274877906944\nm,1,,274877906944\nm,1,,274877906944\n'

head -c 100 "$traces/ort-rec-hook.csv.gz" >"$work/cut.csv.gz"
refused 'cut.csv.gz: |damaged or cut short' replay "$work/cut.csv.gz"
head -c 100000 /dev/urandom >"$work/noise.csv"
refused 'noise.csv: |line ' replay "$work/noise.csv"
refused 'no regular file' replay /dev/zero
refused 'no regular file' replay "$work"
refused 'ENOENT' replay "$work/none.csv"

finish
