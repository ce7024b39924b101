#!/bin/sh
# private_jemalloc.sh - a copy of a jemalloc archive that nobody outside the heap can see.
#
#   private_jemalloc.sh ARCHIVE KEEP REDIRECT OUTPUT AR NM OBJCOPY LD
#
# Makes one relocatable object OUTPUT of ARCHIVE: every symbol that the archive defines is renamed to
# strata__je_NAME and made local, except those listed in KEEP; every function listed in REDIRECT, by
# which jemalloc would reach the environment, files or the program break, is asked of ours instead.
# Refuses to make an object in which any of that did not work. README.md says why.

set -eu
# One collation for sort and the tools that compare: the object is the same wherever it is made.
LC_ALL=C
export LC_ALL

fail() {
    echo "private_jemalloc.sh: $*" >&2
    exit 1
}

[ $# -eq 8 ] || fail "wants 8 arguments, see its head"
archive=$1 keep=$2 redirect=$3 output=$4 ar=$5 nm=$6 objcopy=$7 ld=$8

scratch=$(mktemp -d "$output.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# Members are unpacked into one folder: two of one name would silently become one.
members=$("$ar" t "$archive" | sort)
[ -z "$(echo "$members" | uniq -d)" ] || fail "$archive has two members of one name"

# The C++ operators would make the C library need libstdc++, and nobody calls them here.
mkdir "$scratch/members"
(cd "$scratch/members" && "$ar" x "$archive" && rm -f jemalloc_cpp.*)
"$ld" -r -o "$scratch/joined.o" "$scratch"/members/*.o

# An archive built with --with-jemalloc-prefix=P defines Pmallctl; the distribution's prefix is empty.
prefix=$("$nm" --defined-only -g "$scratch/joined.o" |
    sed -n -e 's/^.* T \([A-Za-z0-9_]*\)mallctlbymib$/\1/p')
"$nm" --defined-only -g "$scratch/joined.o" | grep -q " T ${prefix}mallctlbymib\$" ||
    fail "$archive is no jemalloc: mallctlbymib is missing"

"$nm" --defined-only -g "$scratch/joined.o" | awk -v prefix="$prefix" '
    NF == 3 {
        name = $3
        if (prefix != "" && index(name, prefix) == 1) {
            name = substr(name, length(prefix) + 1)
        }
        print $3, "strata__je_" name
    }' | sort -u >"$scratch/names"
awk '!/^#/ && NF == 1 { print $1, "strata__je_no_" $1 }' "$redirect" >>"$scratch/names"
"$objcopy" --redefine-syms="$scratch/names" "$scratch/joined.o" "$scratch/renamed.o"
"$objcopy" --keep-global-symbols="$keep" "$scratch/renamed.o" "$scratch/private.o"

# What was asked for is what came out.
grep -v '^#' "$keep" | sort >"$scratch/wanted"
"$nm" --defined-only -g "$scratch/private.o" | awk 'NF == 3 { print $3 }' | sort >"$scratch/kept"
cmp -s "$scratch/wanted" "$scratch/kept" ||
    fail "$archive lacks $(comm -23 "$scratch/wanted" "$scratch/kept" | tr '\n' ' ')"
grep -v '^#' "$redirect" | sort >"$scratch/forbidden"
"$nm" -u "$scratch/private.o" | awk '{ sub(/@.*/, "", $2); print $2 }' | sort -u \
    >"$scratch/asked"
reached=$(comm -12 "$scratch/forbidden" "$scratch/asked" | tr '\n' ' ')
[ -z "$reached" ] || fail "the copy still calls $reached"

mv "$scratch/private.o" "$output"
