#!/bin/sh
# test_cli.sh - what every command of `strata` owes its caller: help on every level, one line and
# exit status 2 for what cannot be used, exit status 1 where the output is not taken.

set -u
# shellcheck source=tests/tools/lib.sh
. "$(dirname "$0")/lib.sh"

# --- help and version ---
for command in '' load replay bench infer; do
    # shellcheck disable=SC2086 # nothing, or one word
    run $command --help
    expect_status 0
    if ! grep -q '^Usage: strata' "$work/out" || ! grep -q -e --help "$work/out"; then
        complain "help on stdout expected"
    fi
    if [ -s "$work/err" ]; then
        complain "nothing on stderr expected"
    fi
done
# -h and `strata help` are the same text.
for command in '' load replay bench infer; do
    # shellcheck disable=SC2086 # nothing, or one word
    run $command --help
    mv "$work/out" "$work/help"
    for same in "$command -h" "help $command"; do
        # shellcheck disable=SC2086 # words
        run $same
        expect_status 0
        cmp -s "$work/help" "$work/out" || complain "not what --help prints"
    done
done
for option in --memory --config --set --steps --verify --json; do
    run load --help
    checks=$((checks + 1))
    grep -q -e "$option" "$work/out" || complain "help of load without $option"
done
run --version
expect_status 0
grep -q '^strata [0-9]*\.[0-9]*\.[0-9]*$' "$work/out" || complain "a version expected"

# --- what cannot be used ---
refused 'COMMAND is missing|--help'
refused 'plan: unknown command|load, replay, bench' plan
refused 'plan: unknown command|load, replay, bench' help plan
refused 'bench: one argument too many' help load bench
refused '--json: unknown option|options come after the command' --json load x
refused 'doctor: unknown command' doctor
refused 'map: unknown command' map
refused '--bogus: unknown option|strata --help' --bogus
refused 'MODEL... is missing|strata load --help' load
refused 'TRACE... is missing' replay
refused 'NAME... is missing' bench
refused 'swap: unknown bench|alloc, load, release' bench swap
refused '--bogus: unknown option|strata load --help' load --bogus x
refused '-x: unknown option' load -x y
refused '--cycles: unknown option' load --cycles 3 x
refused '--driver: unknown option' load --driver x y
refused '--steps' load --steps
refused '--json=yes' load --json=yes x
for number in x 1x -1 +1 ' 1' 1.5 0x10 1000001 99999999999999999999999999 ''; do
    refused '--steps: |from 0 to 1000000' load "--steps=$number" x
done
refused '--runs: |from 1 to' bench --runs 0 alloc
refused '--bytes: ' bench --bytes 12parsec load
refused '--bytes: |out of range; write 1MiB to 1TiB' bench --bytes 1KiB load
refused '--allocator: "tlsf"|strata or glibc' replay --allocator tlsf x
for memory in device pinned managed; do
    refused "--memory: $memory: unsupported in this build: comes with CUDA" \
        load --memory "$memory" x
done
refused '--memory: "paper"|host or file' load --memory paper x
refused 'no-such-file: ' load "$work/no-such-file"

# An argument of 100,000 bytes, and one with a newline and an escape: still one line.
long=$(printf '%100000s' x | tr ' ' a)
refused 'unknown command' "$long"
refused '--steps: ' load "--steps=$long" x
newline=$(printf 'a\n\033[31mb')
refused 'unknown command|a??[31mb' "$newline"
refused 'a??[31mb: ' load "$newline"

# --- configuration ---
refused '--config: |no-such.ini: No such file' load --config "$work/no-such.ini" x
refused '--config: |Is a directory' load --config "$work" x
printf '[weights]\nreserve = 1GiB\nreserve = 2GiB\n' >"$work/twice.ini"
refused '--config: |twice.ini:3' load --config "$work/twice.ini" x
printf '[weights]\ncolour = red\n' >"$work/key.ini"
refused '--config: |key.ini:2|colour' load --config "$work/key.ini" x
printf '[wheights]\nreserve = 1GiB\n' >"$work/name.ini"
refused '--config: |name.ini:2|wheights|weights, kv, scratch' load --config "$work/name.ini" x
head -c 1048577 /dev/zero | tr '\0' '#' >"$work/large.ini"
refused '--config: |larger than 1048576 bytes' load --config "$work/large.ini" x
head -c 5000 /dev/urandom >"$work/noise.ini"
refused '--config: |noise.ini' load --config "$work/noise.ini" x
refused '--set: ' load --set weights.reserve:lots x
refused '--set: ' load --set weights x
refused '--set: nothing here is called "run"' load --set kv.first:1MiB --set run.first:1MiB x
for name in weights all; do
    refused 'weights.memory: |write --memory file' load --set "$name.memory:file" x
done
printf 'no model, and long enough to be one that is not known\n' >"$work/some.onnx"
refused 'not a model file|for ONNX models use|strata infer' load "$work/some.onnx"
refused 'weights' load --set weights.first:2GiB,weights.reserve:1GiB x

# --- output that is not taken ---
# Each prints a different way: help, a version, a document.
"$helpers/make_model" gguf "$work/model.gguf"
for arguments in --help --version "load --json $work/model.gguf" "load $work/model.gguf"; do
    what="strata $arguments"
    status=0
    # shellcheck disable=SC2086 # words, on purpose
    "$strata" $arguments >/dev/full 2>"$work/err" || status=$?
    : >"$work/out"
    expect_status 1
    expect_line 'stdout: '
    status=0
    # shellcheck disable=SC2086
    "$strata" $arguments >&- 2>"$work/err" || status=$?
    expect_status 1
    expect_line 'stdout: '
done
# A reader that goes away is a failed write, not a signal that ends the command without a word.
what='strata --help | (reader that has gone)'
mkfifo "$work/pipe"
(exec 3<"$work/pipe"; sleep 0.2) &
{
    sleep 0.6
    status=0
    "$strata" --help 2>"$work/err" || status=$?
    echo "$status" >"$work/status"
} >"$work/pipe"
wait
status=$(cat "$work/status")
expect_status 1
expect_line 'stdout: '
# With stderr closed as well there is nobody to tell, but the status stands.
status=0
"$strata" plan >&- 2>&- </dev/null || status=$?
expect_status 2

finish
