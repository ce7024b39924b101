#!/bin/sh
# fresh.sh: proves that the README's first two commands work for someone who has just cloned.
#
#   tests/fresh.sh [--cache FOLDER] [--work FOLDER] [--keep] [VARIANT...]
#
# Needs root (it makes a Debian 12 root with debootstrap and changes into it) and debootstrap. Each
# variant gets a bare root of its own, with HEAD cloned into it:
#
#   root     both commands as root, then again from another directory and without any network
#   sudo     the same as a normal user who has sudo
#   no-npm   the first command where the package registry cannot be reached: it has to say so and
#            replay a recorded stream instead
#
# --cache keeps the debootstrap's result for the next run; --work says where roots and logs go
# (default: a new folder in /var/tmp); --keep leaves the roots there. The commands are read from
# README.md, the mirrors, the registry, proxies and certificates from this machine's configuration:
# none is named here. Every mount lives in a mount namespace of its own and goes with it, however
# this script ends.

set -eu

release=bookworm
script=$(readlink -f "$0")
checkout=$(dirname "$(dirname "$script")")

say() {
    printf 'fresh: %s\n' "$*"
}

fail() {
    fail_status=$1
    shift
    printf 'fresh: %s\n' "$*" >&2
    exit "$fail_status"
}

# ---- what this machine is configured to use ----

# apt itself answers, so that it does not matter in which format and files the sources are written.
# Sources of others than Debian have other suites or components, and a bare Debian has none.
# shellcheck disable=SC2016 # apt's placeholders, not the shell's
apt_sources() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v release="$release" '
            $2 == release || $2 == release "-updates" || $2 == release "-security" {
                if ($3 == "main" && !seen[$0]++) {
                    print "deb", $1, $2, $3
                }
            }'
}

# How apt reaches its mirrors, without hooks and preferences of packages that a bare root lacks.
apt_settings() {
    apt-config dump | grep -E '^Acquire::(http|https|Retries|Check-|Force|GzipIndexes|Languages)' |
        grep -Eiv '^Acquire::https::CaInfo|""' || true
    if [ -n "${http_proxy-}" ]; then
        printf 'Acquire::http::Proxy "%s";\n' "$http_proxy"
    fi
    if [ -n "${https_proxy-}" ]; then
        printf 'Acquire::https::Proxy "%s";\n' "$https_proxy"
    fi
    printf 'Acquire::https::CAInfo "/etc/machine-certificates.pem";\n'
}

# npm_value KEY: npm's answer, or nothing where there is no npm or no such setting.
npm_value() {
    value=$(npm config get "$1" 2>/dev/null) || value=
    case $value in
        null | undefined) ;;
        *) printf '%s' "$value" ;;
    esac
}

# The files may hold credentials: copied, never shown, and readable by their user only.
npm_settings() {
    for file in "$(npm_value globalconfig)" /etc/npmrc "$(npm_value userconfig)"; do
        if [ -f "$file" ]; then
            grep -Ev '^ *(cafile|prefix|cache|nodedir) *=' "$file" || true
            echo
        fi
    done
    for key in registry proxy https-proxy noproxy strict-ssl; do
        value=$(npm_value "$key")
        if [ -n "$value" ]; then
            printf '%s=%s\n' "$key" "$value"
        fi
    done
    printf 'cafile=/etc/machine-certificates.pem\n'
}

certificates() {
    for file in "${NODE_EXTRA_CA_CERTS-}" "$(npm_value cafile)" "${SSL_CERT_FILE-}" \
        /etc/ssl/certs/ca-certificates.crt; do
        if [ -f "$file" ]; then
            printf '%s' "$file"
            return
        fi
    done
}

# The keys that this machine's sources are signed with, beside Debian's own.
apt_keys() {
    find /etc/apt/trusted.gpg.d -type f 2>/dev/null || true
    grep -rhoiE 'signed-by[=:] *(/[^] ]+)' /etc/apt/sources.list /etc/apt/sources.list.d \
        2>/dev/null | sed 's/^[^/]*//' | sort -u || true
}

# ---- making a root ----

# isolated COMMAND...: in mount and process namespaces of its own. Whatever is mounted or started
# there ends with the command, so nothing can stay behind on this machine. In the background, since
# the shell acts on a signal only between foreground commands.
isolated() {
    unshare --mount --propagation private --pid --fork --kill-child "$@" &
    child=$!
    isolated_status=0
    wait "$child" || isolated_status=$?
    child=
    return "$isolated_status"
}

make_base() {
    mirror=$(apt_sources | awk -v release="$release" '$3 == release { print $2; exit }')
    [ -n "$mirror" ] || fail 2 "apt is not configured for Debian's $release main on this machine"
    say "making a bare Debian root with debootstrap (once, with --cache)"
    for scheme in http https; do
        proxy=$(apt-config dump | sed -n "s/^Acquire::$scheme::Proxy \"\(.*\)\";\$/\1/p")
        if [ -n "$proxy" ] && [ "$proxy" != DIRECT ]; then
            export "${scheme}_proxy=$proxy"
        fi
    done
    # A mirror that is only to be had over TLS needs certificates before apt can install any.
    include=
    case $(apt_sources) in
        *https:*) include=--include=ca-certificates ;;
    esac
    # shellcheck disable=SC2086 # one word or none
    isolated debootstrap --variant=minbase $include "$release" "$work/base" "$mirror" \
        >"$work/log/debootstrap.log" 2>&1 ||
        fail 1 "debootstrap failed: see $work/log/debootstrap.log"
    tar -C "$work/base" --numeric-owner -cf "$base.part" .
    mv "$base.part" "$base"
    rm -rf --one-file-system "$work/base"
}

make_root() {
    mkdir "$root"
    tar -C "$root" --numeric-owner -xpf "$base"
    rm -f "$root"/etc/apt/sources.list.d/*
    apt_sources >"$root/etc/apt/sources.list"
    apt_settings >"$root/etc/apt/apt.conf.d/99machine"
    apt_keys | while read -r key; do
        if [ -f "$key" ]; then
            cp -n "$key" "$root/etc/apt/trusted.gpg.d/"
        fi
    done
    for file in auth.conf auth.conf.d; do
        if [ -e "/etc/apt/$file" ]; then
            cp -rp "/etc/apt/$file" "$root/etc/apt/"
        fi
    done
    install -m 644 "$(certificates)" "$root/etc/machine-certificates.pem"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    cp /etc/hosts "$root/etc/hosts"
}

# clone USER HOME: HEAD and nothing else, with the npm settings of the one who cloned. git takes
# a foreign owner's checkout only when told to.
clone() {
    git -c "safe.directory=*" clone -q --depth 1 "file://$checkout" "$root$2/strata"
    (umask 077 && npm_settings >"$root$2/.npmrc")
    chroot "$root" chown -R "$1:$1" "$2/strata" "$2/.npmrc"
}

# ---- running in it ----

# The child of `isolated`: mounts what a running Debian has, then runs $3 in the root as user $2.
# /dev is the root's own, made by debootstrap, not this machine's.
inside() {
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$1/dev/pts"
    home=/root
    if [ "$2" != root ]; then
        home=/home/$2
    fi
    # What a login gives, and CI where it was asked for; nothing else of this machine's environment.
    exec chroot --userspec="$2:$2" --groups="$(chroot "$1" id -G "$2" | tr ' ' ,)" "$1" \
        env -i ${CI:+"CI=$CI"} HOME="$home" USER="$2" LOGNAME="$2" SHELL=/bin/sh TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "$3" </dev/null
}

# step NAME USER COMMAND [online|offline]: one command, its log, its time; the first failure ends
# everything. Offline is a network namespace with nothing in it.
step() {
    log="$work/log/$variant-$1.log"
    before=$(date +%s)
    network=
    if [ "${4-online}" = offline ]; then
        network=--net
    fi
    say "$variant: as $2${network:+, without a network}: $3"
    # shellcheck disable=SC2086 # one word or none
    if ! isolated $network sh "$script" --inside "$root" "$2" "$3" >"$log" 2>&1; then
        tail -n 30 "$log" | sed 's/^/    | /' >&2
        fail 1 "FAILED in variant $variant: $3; the log is $log"
    fi
    say "$variant: passed in $(($(date +%s) - before)) s"
}

# expect PATTERN, reject PATTERN: what the last step's log has to say, or must not.
expect() {
    grep -qE "$1" "$log" || fail 1 "FAILED in variant $variant: no \"$1\" in $log"
}

reject() {
    ! grep -E "$1" "$log" >&2 || fail 1 "FAILED in variant $variant: \"$1\" in $log"
}

# The commands of the README's first code block, without comments and empty lines.
readme_commands() {
    git -c "safe.directory=*" -C "$checkout" show HEAD:README.md |
        awk '/^```/ { if (inside) { exit } inside = 1; next } inside' |
        sed -e 's/[[:space:]]#.*//' -e 's/[[:space:]]*$//' -e '/^#/d' -e '/^$/d'
}

# twice USER HOME: as the README has it, then from another directory with the network gone.
twice() {
    first=$(readme_commands | sed -n 1p)
    second=$(readme_commands | sed -n 2p)
    step 1-try "$1" "cd $2/strata && $first"
    reject 'a recorded stream instead'
    expect '^\$ .*strata infer .*--compare-stock'
    step 2-test "$1" "cd $2/strata && $second"
    expect '100% tests passed'
    reject 'SKIPPED'
    step 3-try-again "$1" "cd / && $(elsewhere "$first" "$2")" offline
    reject 'installing|fetching|a recorded stream instead'
    expect '^\$ .*strata infer .*--compare-stock'
    step 4-test-again "$1" "cd / && $(elsewhere "$second" "$2")" offline
    reject 'installing|fetching|SKIPPED'
    expect '100% tests passed'
}

elsewhere() {
    printf '%s' "$1" | sed "s#\\(^\\|[ /]\\)tools/#\\1$2/strata/tools/#g"
}

# ---- variants ----

variant_root() {
    clone root /root
    twice root /root
}

variant_sudo() {
    step 0-sudo root "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install \
--no-install-recommends sudo && useradd --create-home --shell /bin/sh --groups sudo newcomer"
    echo 'newcomer ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/newcomer"
    clone newcomer /home/newcomer
    twice newcomer /home/newcomer
}

# Port 9 of the root itself: nobody listens there, so that every request is refused at once.
variant_no_npm() {
    clone root /root
    echo 'registry=http://localhost:9/' >>"$root/root/.npmrc"
    step 1-try root "cd /root/strata && $(readme_commands | sed -n 1p)"
    expect 'npm could not fetch'
    expect 'a recorded stream instead'
    expect '^\$ .*strata replay '
}

run_variant() {
    variant=$1
    root="$work/root-$variant"
    make_root
    case $variant in
        root) variant_root ;;
        sudo) variant_sudo ;;
        no-npm) variant_no_npm ;;
    esac
    if [ "$keep" = no ]; then
        rm -rf --one-file-system "$root"
    fi
}

clean_up() {
    if [ -n "$child" ]; then
        kill -KILL "$child" || true
        wait "$child" || true
        sleep 1 # the kernel takes down the namespace's processes after their parent
    fi
    if [ "$keep" = no ]; then
        rm -rf --one-file-system "$work"/base "$work"/root-*
        if [ -z "$cache" ]; then
            rm -f "$base" "$base.part"
        fi
    fi
}

check_machine() {
    [ "$(id -u)" -eq 0 ] || fail 2 "needs root, to make a Debian root and change into it"
    for tool in debootstrap git unshare apt-get; do
        command -v "$tool" >/dev/null || fail 2 "needs $tool on this machine"
    done
    [ -n "$(certificates)" ] || fail 2 "this machine has no certificates (ca-certificates)"
    [ "$(readme_commands | wc -l)" -eq 2 ] ||
        fail 2 "the first code block of README.md at HEAD does not hold exactly two commands"
    if [ -n "$(git -c "safe.directory=*" -C "$checkout" status --porcelain)" ]; then
        say "note: HEAD is what is tested; the uncommitted changes here are not"
    fi
}

if [ "${1-}" = --inside ]; then
    shift
    inside "$@"
fi
cache=
work=
keep=no
child=
while [ $# -gt 0 ]; do
    case $1 in
        --cache) cache=${2:?--cache needs a folder} && shift ;;
        --work) work=${2:?--work needs a folder} && shift ;;
        --keep) keep=yes ;;
        -*) fail 2 "usage: tests/fresh.sh [--cache FOLDER] [--work FOLDER] [--keep] [VARIANT...]" ;;
        *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || set -- root sudo no-npm
for variant in "$@"; do
    case $variant in
        root | sudo | no-npm) ;;
        *) fail 2 "no variant $variant: there are root, sudo and no-npm" ;;
    esac
done
check_machine
if [ -n "$work" ]; then
    mkdir -p "$work"
    work=$(readlink -f "$work")
    for old in "$work"/base "$work"/root-*; do
        [ ! -e "$old" ] || fail 2 "$old is in the way: remove it or choose another --work"
    done
else
    work=$(mktemp -d /var/tmp/strata-fresh.XXXXXX)
fi
mkdir -p "$work/log"
if [ -n "$cache" ]; then
    mkdir -p "$cache"
    cache=$(readlink -f "$cache")
fi
base="${cache:-$work}/$release-$(dpkg --print-architecture)-minbase.tar"
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
[ -f "$base" ] || make_base
for variant in "$@"; do
    run_variant "$variant"
done
say "all variants passed: $*; the logs are in $work/log"
