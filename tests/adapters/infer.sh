#!/bin/sh
# infer.sh STRATA LIBRARY MODELS: `strata infer` with the real runtime, from outside: exit statuses,
# the keys of the document, and what it says when it is used wrongly.
#
# Without a runtime it says so and skips (77); where CI promised one, that is a failure.

set -eu

# When memory runs out the runtime's own allocator is asked for the impossible, and must fail.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:allocator_may_return_null=1"

strata=$1
library=$2
models=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

if [ -z "$library" ] || [ -z "$models" ]; then
    echo "SKIP: no real runtime: configure with -DSTRATA_ORT_LIBRARY=FILE and -DSTRATA_OCR_MODELS=FOLDER"
    if [ -n "${CI:-}" ]; then
        exit 1
    fi
    exit 77
fi
cls=$models/ch_ppocr_mobile_v2.0_cls_infer.onnx
rec=$models/ch_PP-OCRv4_rec_infer.onnx
det=$models/ch_PP-OCRv4_det_infer.onnx

fail() {
    echo "FAILED: $*" >&2
    cat "$folder/out" "$folder/err" >&2
    exit 1
}

# expect STATUS ARGUMENT...: runs `strata infer --runtime onnxruntime ARGUMENT...`.
expect() {
    wanted=$1
    shift
    got=0
    "$strata" infer --runtime onnxruntime "$@" >"$folder/out" 2>"$folder/err" || got=$?
    [ "$got" -eq "$wanted" ] || fail "exit status $got instead of $wanted: $*"
}

# refused ARGUMENT...: status 2, nothing on stdout, one line on stderr.
refused() {
    expect 2 "$@"
    [ ! -s "$folder/out" ] || fail "a refusal wrote to stdout: $*"
    [ "$(wc -l <"$folder/err")" -eq 1 ] || fail "a refusal is one line: $*"
}

has() {
    grep -q -- "$1" "$folder/out" || fail "not in the output: $1"
}

# Promise: the document has every key that scripts rely on, and outputs equal stock's.
expect 0 "$cls" --library "$library" --compare-stock --pairs 15 --rounds 3 --json
for key in runtime name version library models label file rounds output_hash stock_output_hash \
    same_output allocations frees bytes_peak bytes_outside run_ms_median stock_run_ms_median \
    run_ratio median low95 high95 pairs session_options unload_ms stock_unload_ms \
    stock_tlb_shootdowns release status attempted failed order failures bytes_held_before \
    bytes_held_after stranded_bytes unmaps mappings tlb_shootdowns seconds verdict ok; do
    has "\"$key\":"
done
has '"same_output": true'
has '"ok": true'
has '"bytes_held_after": 0'
hash=$(sed -n 's/^ *"output_hash": "\(.*\)",$/\1/p' "$folder/out")
has "\"stock_output_hash\": \"$hash\""

# Promise: three models at once, two threads each, released one by one while the others go on.
expect 0 "$det" "$rec" "$cls" --library "$library" --rounds 3 --threads 2 \
    --shapes 320x320,192x96 --release-order interleaved
has '^ok: 3 model(s) released'

# Promise: what was released is named, the areas add up to what was held, words are explained.
expect 0 "$cls" --library "$library" --rounds 1
has '3 resource(s) released: ch_ppocr_mobile_v2.0_cls_infer, run, weights$'
has '^run.starts  *bookkeeping'
has '^outside: '
has 'what malloc has free for whoever asks next ('
expect 0 "$cls" --library "$library" --rounds 1 --json
held=$(sed -n 's/^ *"bytes_held_before": \([0-9]*\),$/\1/p' "$folder/out")
sum=$(sed -n 's/^ *"\(committed\|bookkeeping\)_bytes": \([0-9]*\),*$/\2/p' "$folder/out" |
    awk '{ sum += $1 } END { print sum }')
[ "$held" -eq "$sum" ] || fail "$held bytes were held, and the areas add up to $sum"

# Promise: an output held past its session is a refusal with label and bytes; letting go helps.
expect 0 "$rec" --library "$library" --rounds 1 --hold-output --json
has '"refusal":'
has '"status": "busy"'
has '1 output(s)\|holds 1 block(s)' # the second below API 18, which has no Reserve
has '"ok": true'

# Promise: the budget ends a run with its own reason, the process lives, everything comes back; it is
# the configuration's fault, as is a budget or an address space in which the model cannot be opened.
expect 2 "$rec" --library "$library" --shapes 4096x48 --set model.budget:24MiB
grep -q 'budget' "$folder/err" || fail "the budget is not named"
has 'FAILED (see above); 1 model(s) released'
has ', 0B after'

expect 2 "$cls" --library "$library" --set model.budget:64KiB
grep -q 'budget' "$folder/err" || fail "the budget is not named"
expect 2 "$cls" --library "$library" --set weights.memory:file
[ "$(grep -o 'undone: ' "$folder/err" | wc -l)" -eq 1 ] || fail "what was undone is said once"
if [ -z "${STRATA_TEST_SANITIZED:-}" ]; then
    got=0
    (
        # shellcheck disable=SC3045 # dash and bash have it, and nothing portable does
        ulimit -v 8388608
        exec "$strata" infer --runtime onnxruntime --library "$library" \
            --set run.reserve:64GiB "$cls"
    ) >"$folder/out" 2>"$folder/err" || got=$?
    [ "$got" -eq 2 ] || fail "exit status $got instead of 2 in a small address space"
    grep -q 'RLIMIT_AS' "$folder/err" || fail "the limit is not named"
fi

# Promise: what cannot be used is refused in one line, with a remedy, before or without a load.
refused "$cls" --library "$folder/none.so"
refused "$cls" --library /dev/null
refused "$folder/none.onnx" --library "$library"
refused "$folder" --library "$library"
echo 'no model' >"$folder/bad.onnx"
refused "$folder/bad.onnx" --library "$library"
refused "$cls" --library "$library" --shapes 3x
refused "$cls" --library "$library" --shapes 0x5
refused "$cls" --library "$library" --release-order oldest
refused "$cls" --library "$library" --set runs.reserve:1GiB
refused "$cls" --library "$library" --rounds 0
refused --library "$library"
got=0
"$strata" infer --runtime llama "$cls" >"$folder/out" 2>"$folder/err" || got=$?
[ "$got" -eq 2 ] || fail "llama is not built in, and exits with $got"
got=0
"$strata" infer --library "$library" --rounds 1 "$cls" >"$folder/out" 2>"$folder/err" || got=$?
[ "$got" -eq 0 ] || fail "without --runtime onnxruntime is meant, and it exits with $got"
echo "infer: all promises kept"
