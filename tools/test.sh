#!/bin/sh
# test.sh: installs what is missing, builds, and runs every test.
#
#   sh tools/test.sh [PRESET...]     presets of CMakePresets.json; without any, dev
#
# The exit status is 0 when every preset configured, built and passed; 1 when one did not (the
# others are tried all the same); 2 when this machine cannot run them. CI=true reaches the tests,
# where it turns a skip of something promised into a failure.

set -eu

checkout=$(cd "$(dirname "$0")/.." && pwd -P)
# shellcheck source=tools/deps.sh
. "$checkout/tools/deps.sh"

install_packages() {
    # shellcheck disable=SC2086 # a list of names
    deps_require "to build Strata" $deps_build_packages
    deps_require "to run its tests" check valgrind
    for preset in "$@"; do
        if [ "$preset" = tidy ]; then
            deps_require "for the tidy preset" clang clang-tidy clang-format
        fi
    done
}

# A download that is not what the lock says is no reason to test less: it stops the run.
install_runtimes() {
    status=0
    deps_runtimes || status=$?
    if [ "$status" -eq 3 ]; then
        fail 1 "$deps_problem"
    elif [ "$status" -ne 0 ]; then
        say "no real runtime: $deps_problem"
        say "the tests of the onnxruntime adapter will be SKIPPED"
    fi
}

# absolute PATH: CMake wants whole paths; empty stays empty, and clears what an earlier run set.
absolute() {
    printf '%s' "${1:+$checkout/$1}"
}

# ThreadSanitizer of gcc 12 and clang 14 gives up where the kernel spreads addresses further than
# they knew (vm.mmap_rnd_bits above 28), so its tests run without address randomisation.
run_tests() {
    if [ "$1" = tsan ] && setarch -R true 2>/dev/null; then
        setarch -R ctest --preset "$1" --output-log "$checkout/build/$1/ctest.log"
    else
        ctest --preset "$1" --output-log "$checkout/build/$1/ctest.log"
    fi
}

# The layout that .clang-format says, over every C file that git knows; nothing where there is no git.
check_format() {
    if git -C "$checkout" rev-parse >/dev/null 2>&1; then
        git -C "$checkout" ls-files '*.[ch]' | xargs clang-format --dry-run -Werror
    fi
}

# The tidy preset has its verdict when it is built: clang-tidy runs in the compiler's place.
one_preset() {
    rm -f "build/$1/ctest.log"
    # shellcheck disable=SC2046 # one word or none
    cmake --preset "$1" "-DSTRATA_ORT_LIBRARY=$(absolute "$ort_library")" \
        "-DSTRATA_OCR_MODELS=$(absolute "$ocr_models")" $(deps_fresh "$1") || return 1
    cmake --build --preset "$1" || return 1
    if [ "$1" = tidy ]; then
        check_format
    else
        run_tests "$1"
    fi
}

# closing_line PRESET: ctest's own, with what it skipped; nothing where it did not come that far.
closing_line() {
    if [ -f "build/$1/ctest.log" ]; then
        sed -n -e '/tests passed/p' -e '/tests did not run/,$p' "build/$1/ctest.log"
    fi
}

case ${1-} in
    -*) fail 2 "usage: sh tools/test.sh [PRESET...]" ;;
esac
if [ $# -eq 0 ]; then
    set -- dev
fi
deps_begin
install_packages "$@"
install_runtimes
verdict=0
summary=
for preset in "$@"; do
    say "preset $preset: configure, build, test"
    result=passed
    one_preset "$preset" || { result=FAILED verdict=1; }
    summary="$summary
$preset: $result
$(closing_line "$preset")"
done
printf '%s\n' "$summary"
exit "$verdict"
