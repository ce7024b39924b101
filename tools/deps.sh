# shellcheck shell=sh disable=SC2034,SC2154 # it shares variables with the files that source it
# deps.sh: what the build, the tests and the trial run need from outside, and how it comes here.
#
# Sourced by try.sh and test.sh, which set `checkout` first; defines functions and does nothing by
# itself. Debian packages go where apt puts them; everything else goes into the ignored folder
# .deps of the checkout and nowhere else (npm's cache and logs too). Which registry or mirror is
# asked is the machine's own configuration. What is already here and intact is never asked for
# again, so a second run needs no network.
#
# It does not build, and it decides nothing about what to do without a runtime: its callers do.

# The checkout is the working directory of both callers, so that the paths they print can be pasted.
deps_folder=.deps
deps_log="$deps_folder/log"

# What compiling takes. gcc only recommends libc6-dev, and we install without recommendations.
deps_build_packages="cmake ninja-build gcc g++ libc6-dev pkg-config libjemalloc-dev libjansson-dev
    libpopt-dev zlib1g-dev"

say() {
    printf 'strata: %s\n' "$*"
}

# fail STATUS MESSAGE...: 1 the work failed, 2 this machine or these arguments cannot do it.
fail() {
    fail_status=$1
    shift
    printf 'strata: %s\n' "$*" >&2
    exit "$fail_status"
}

# deps_begin: call once, before anything else here. dash runs an EXIT trap on `exit` only, hence
# the signals that are turned into one.
deps_begin() {
    cd "$checkout" || exit 2
    if ! mkdir -p "$deps_log" 2>/dev/null || [ ! -w "$deps_folder" ] || [ ! -w "$deps_log" ]; then
        fail 2 "cannot write to $checkout/$deps_folder: run as its owner, or with sudo"
    fi
    deps_scratch=
    trap deps_end EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# Under sudo, or as root in a container, what we made would belong to root and the next run as the
# checkout's owner would fail: hand it over.
deps_end() {
    if [ -n "$deps_scratch" ]; then
        rm -rf "$deps_scratch"
    fi
    deps_owner=$(stat -c %u:%g .)
    if [ "$(id -u)" -eq 0 ] && [ "${deps_owner%%:*}" -ne 0 ]; then
        for made in "$deps_folder" build; do
            if [ -d "$made" ]; then
                chown -R "$deps_owner" "$made"
            fi
        done
    fi
}

# Shows the end of a log on stderr, indented so that it is told apart from our own lines.
deps_show_log() {
    tail -n 20 "$1" | sed 's/^/    | /' >&2
    printf 'strata: the whole log is %s\n' "$checkout/$1" >&2
}

# deps_fresh PRESET: prints --fresh where the build folder was made under another path, as when a
# checkout was moved or is seen from a container. CMake refuses such a folder otherwise.
deps_fresh() {
    cache="build/$1/CMakeCache.txt"
    if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$checkout" "$cache"; then
        printf '%s' --fresh
    fi
}

# ---- Debian packages ----

# CMakePresets.json is of version 6, which CMake reads from 3.25 on.
deps_cmake_is_recent() {
    cmake --version | awk 'NR == 1 {
        split($3, part, ".")
        exit !(part[1] > 3 || (part[1] == 3 && part[2] >= 25))
    }'
}

# Asks for the thing, not for the package: a compiler or a cmake from elsewhere serves as well.
deps_package_is_here() {
    case $1 in
        cmake) command -v cmake && deps_cmake_is_recent ;;
        ninja-build) command -v ninja ;;
        libc6-dev) echo '#include <stdlib.h>' | cc -E - ;;
        libjemalloc-dev) [ -e "$(pkg-config --variable=libdir jemalloc)/libjemalloc_pic.a" ] ;;
        libjansson-dev) pkg-config --exists jansson ;;
        libpopt-dev) pkg-config --exists popt ;;
        zlib1g-dev) pkg-config --exists zlib ;;
        check) pkg-config --exists check ;;
        npm) npm --version ;;
        *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

# deps_missing PACKAGE...: sets deps_missing_packages to those that are not here.
deps_missing() {
    deps_missing_packages=
    for package in "$@"; do
        if ! deps_package_is_here "$package"; then
            deps_missing_packages="$deps_missing_packages $package"
        fi
    done
    [ -n "$deps_missing_packages" ]
}

# Sets deps_as_root to what turns a command into root's. A sudo that would have to ask for a
# password is used only where somebody can answer.
deps_can_be_root() {
    if [ "$(id -u)" -eq 0 ]; then
        deps_as_root=
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        deps_as_root=sudo
    else
        return 1
    fi
}

# deps_apt ARGUMENT...: apt-get as root, asking nothing, waiting for another apt to finish.
deps_apt() {
    # shellcheck disable=SC2086 # deps_as_root is one word or none
    $deps_as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >>"$deps_log/apt.log" 2>&1
}

# deps_install WHY PACKAGE...: installs what of these is missing. Answers 1, with a sentence in
# deps_problem, when it cannot.
deps_install() {
    why=$1
    shift
    deps_missing "$@" || return 0
    if ! command -v apt-get >/dev/null; then
        deps_problem="there is no apt here; please install what corresponds to Debian's"
    elif ! deps_can_be_root; then
        deps_problem="neither root nor sudo can be had here; please have installed"
    else
        say "installing$deps_missing_packages ($why)"
        : >"$deps_log/apt.log"
        # One broken source of several fails the update; whether it mattered, the install says.
        deps_apt update || say "apt-get update reported a problem; trying to install all the same"
        # shellcheck disable=SC2086 # a list of names
        if deps_apt install --no-install-recommends $deps_missing_packages; then
            deps_missing "$@" || return 0
            deps_problem="installed, but still not usable or too old (cmake: 3.25 is needed)"
        else
            deps_show_log "$deps_log/apt.log"
            deps_problem="apt-get could not install"
        fi
    fi
    deps_problem="$deps_problem:$deps_missing_packages ($why)"
    return 1
}

# deps_require WHY PACKAGE...: the same, for what there is no going on without.
deps_require() {
    deps_install "$@" || fail 2 "$deps_problem"
}

# ---- runtimes and models ----

# deps_lock_entry LABEL: sets lock_package, lock_version, lock_integrity; 1 if there is none.
deps_lock_entry() {
    while read -r lock_label lock_package lock_version lock_integrity; do
        if [ "$lock_label" = "$1" ]; then
            return 0
        fi
    done <tools/runtimes.lock
    return 1
}

# The stamp names the lock's entry and the hash of every unpacked file, so that neither a changed
# lock nor a damaged file passes for what is wanted.
deps_is_intact() {
    [ -f "$1/.stamp" ] || return 1
    read -r stamp_entry <"$1/.stamp" || return 1
    [ "$stamp_entry" = "# $lock_package $lock_version $lock_integrity" ] || return 1
    (cd "$1" && sha512sum --check --quiet --strict .stamp) >/dev/null 2>&1
}

# deps_matches FILE INTEGRITY: compares in hexadecimal, which takes nothing but coreutils.
deps_matches() {
    wanted=$(printf '%s' "${2#sha512-}" | base64 -d | od -An -v -tx1 | tr -d ' \n')
    found=$(sha512sum <"$1")
    found=${found%% *}
    [ "${2%%-*}" = sha512 ] && [ ${#wanted} -eq 128 ] && [ "$found" = "$wanted" ]
}

# Downloads the lock's current entry to $deps_scratch/package.tgz. No script of the package runs.
# npm prints the name it chose differently from version to version; there is just one.
deps_download() {
    mkdir "$deps_scratch/download" || return 1
    (cd "$deps_scratch/download" &&
        npm pack --ignore-scripts --cache ../cache --fetch-retries 2 \
            --fetch-retry-mintimeout 1000 --fetch-retry-maxtimeout 5000 \
            "$lock_package@$lock_version") >"$deps_log/npm.log" 2>&1 &&
        mv "$deps_scratch"/download/*.tgz "$deps_scratch/package.tgz"
}

# Unpacks beside the target and renames last: what an interrupted run leaves is never taken for a
# runtime. A crash of the machine may leave any of it unwritten; the stamp's hashes notice.
deps_unpack() {
    tree="$deps_scratch/tree"
    mkdir "$tree" || return 1
    tar -xzf "$deps_scratch/package.tgz" -C "$tree" --strip-components=1 --no-same-owner ||
        return 1
    (cd "$tree" && find . -type f ! -name .stamp -exec sha512sum {} +) >"$deps_scratch/sums" ||
        return 1
    { echo "# $lock_package $lock_version $lock_integrity" && cat "$deps_scratch/sums"; } \
        >"$tree/.stamp" || return 1
    if [ -e "$1" ]; then
        mv -T "$1" "$deps_scratch/old" || return 1
    fi
    mv -T "$tree" "$1"
}

# deps_fetch LABEL: sets deps_fetched to the folder of this entry, fetching it when it is not here
# or not intact. Answers 1 with deps_problem when it cannot be had; 3 when what came was refused.
deps_fetch() {
    if ! deps_lock_entry "$1"; then
        deps_problem="tools/runtimes.lock has no $1"
        return 1
    fi
    deps_fetched="$deps_folder/$1-$lock_version"
    if deps_is_intact "$deps_fetched"; then
        return 0
    fi
    if [ -e "$deps_fetched" ]; then
        say "$deps_fetched is damaged or out of date; fetching it again"
    fi
    deps_install "to fetch a real runtime and its models" npm || return 1
    say "fetching $lock_package $lock_version with npm"
    # Under the lock only what a killed run left behind can be there.
    rm -rf "$deps_folder"/fetch.*
    deps_problem="cannot write to $checkout/$deps_folder"
    deps_scratch=$(mktemp -d "$deps_folder/fetch.XXXXXX") || return 1
    fetch_status=0
    deps_fetch_into_scratch || fetch_status=$?
    rm -rf "$deps_scratch"
    deps_scratch=
    return "$fetch_status"
}

deps_fetch_into_scratch() {
    if ! deps_download; then
        # npm says first what went wrong, and then a lot.
        grep -iE '^npm err' "$deps_log/npm.log" | head -n 4 | sed 's/^/    | /' >&2
        deps_problem="npm could not fetch $lock_package $lock_version (the whole log is \
$checkout/$deps_log/npm.log)"
        return 1
    fi
    if ! deps_matches "$deps_scratch/package.tgz" "$lock_integrity"; then
        deps_problem="REFUSED $lock_package $lock_version: its SHA-512 is not the one in \
tools/runtimes.lock, so the download is damaged or was tampered with; nothing of it was unpacked"
        return 3
    fi
    if ! deps_unpack "$deps_fetched"; then
        deps_problem="cannot unpack $lock_package $lock_version into $checkout/$deps_folder"
        return 1
    fi
}

deps_architecture() {
    case $(uname -m) in
        x86_64) echo amd64 ;;
        aarch64) echo arm64 ;;
        *) uname -m ;;
    esac
}

# deps_runtimes: sets ort_library and ocr_models, as paths inside the checkout; both stay empty, and
# the answer is deps_fetch's, when either cannot be had. One run at a time fetches.
deps_runtimes() {
    ort_library=
    ocr_models=
    exec 9>"$deps_folder/lock"
    flock 9
    runtimes_status=0
    deps_both_runtimes || runtimes_status=$?
    exec 9>&-
    return "$runtimes_status"
}

deps_both_runtimes() {
    deps_fetch "onnxruntime-$(deps_architecture)" || return
    runtime=$deps_fetched
    deps_fetch ocr-models || return
    ort_library="$runtime/libonnxruntime.so"
    ocr_models="$deps_fetched/assets"
}
