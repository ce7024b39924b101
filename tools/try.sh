#!/bin/sh
# try.sh: from a fresh checkout to the main job in one command.
#
# Installs what is missing, builds the `strata` command, and runs real models through a real
# runtime with Strata as its allocator, ending in the release report. Where the runtime cannot be
# had it says so and replays a recorded stream instead. Works from any directory, as root or as a
# user with sudo; a second run installs and fetches nothing.
#
# Builds no tests: tools/test.sh does.

set -eu

checkout=$(cd "$(dirname "$0")/.." && pwd -P)
# shellcheck source=tools/deps.sh
. "$checkout/tools/deps.sh"

# The warnings of a compiler that we have not met are no reason to refuse somebody a first look.
build_command() {
    mkdir -p build/release
    log=build/release/try.log
    say "building build/release/bin/strata"
    # shellcheck disable=SC2046 # one word or none
    if ! { cmake --preset release -DBUILD_TESTING=OFF -DSTRATA_WERROR=OFF $(deps_fresh release) &&
        cmake --build --preset release --target strata_cli; } >"$log" 2>&1; then
        deps_show_log "$log"
        fail 1 "the build failed"
    fi
}

# run COMMAND...: shows the exact command, then runs it.
run() {
    printf '\n$ cd %s\n$ %s\n\n' "$checkout" "$*"
    "$@"
}

infer() {
    run build/release/bin/strata infer --runtime onnxruntime \
        "$ocr_models/ch_PP-OCRv4_det_infer.onnx" \
        "$ocr_models/ch_ppocr_mobile_v2.0_cls_infer.onnx" \
        "$ocr_models/ch_PP-OCRv4_rec_infer.onnx" \
        --library "$ort_library" --compare-stock
}

replay() {
    say "running a recorded stream instead; nothing below was measured in a real runtime"
    run build/release/bin/strata replay tests/traces/ort-rec-hook.csv.gz
}

if [ $# -gt 0 ]; then
    fail 2 "usage: sh tools/try.sh (it takes no arguments)"
fi
deps_begin
# shellcheck disable=SC2086 # a list of names
deps_require "to build Strata" $deps_build_packages
job=infer
if ! deps_runtimes; then
    say "the real runtime cannot be had: $deps_problem"
    job=replay
fi
build_command
"$job"
