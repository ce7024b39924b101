#!/bin/sh
# symbols.sh OBJDUMP ARCHIVE [MEMBER] - no writable data symbol, and no global name but strata_*.
#
# MEMBER is the one object that may have writable data; it must have some, or the exception is no
# longer needed. Constant tables with addresses lie in .data.rel.ro, which is read-only once the
# program has started; names of sanitizers and of coverage are the instrumentation's, not ours.
set -eu
objdump=$1 archive=$2 except=${3:-}

"$objdump" -t "$archive" | awk -v except="$except" '
    /file format/ { object = $1; sub(/:$/, "", object); next }
    # VALUE FLAGS SECTION SIZE NAME: flags are 7 characters after the value.
    /^[0-9a-f]+ / {
        flags = substr($0, index($0, " ") + 1, 7)
        rest = substr($0, index($0, " ") + 9)
        split(rest, field, /[ \t]+/)
        section = field[1]; size = field[2]; name = field[3]
        if (name == ".hidden") { name = field[4] }
        if (name ~ /^(__asan|__odr_asan|__tsan|__ubsan|\.L|__gcov|asan\.|tsan\.|__sancov)/) { next }
        writable = section ~ /^\.(data|bss|tdata|tbss)/ && section !~ /^\.data\.rel\.ro/
        if (section == "*COM*") { writable = 1 }
        if (writable && flags !~ /d/ && size !~ /^0+$/) {
            if (except != "" && object == except) {
                excepted++
            } else {
                print "writable data: " object ": " section " " name; bad = 1
            }
        }
        if (substr(flags, 1, 1) == "g" && section != "*UND*" && name !~ /^strata_/) {
            print "foreign name: " object ": " name; bad = 1
        }
        seen++
    }
    END {
        if (seen == 0) { print "no symbols were read"; exit 2 }
        if (except != "" && excepted == 0) { print except " has no writable data"; exit 1 }
        if (bad) { exit 1 }
        print seen " symbols; writable data: " excepted + 0 ", all of it in " \
            (except == "" ? "nothing" : except)
    }'
