#!/bin/sh
# documented.sh CONFIG_H - every key that the parser knows stands in the header's example, and the
# example has no other.
set -eu
header=$1
known=$(sed -n 's/^ *X([A-Z_]*, "\([a-z_]*\)").*/\1/p' "$header" | sort)
[ -n "$known" ] || { echo "no keys were read from $header"; exit 1; }
shown=$(sed -n '/^ \*   \[weights\]/,/^ \* A plain/s/^ \*   \([a-z_]*\) = .*/\1/p' "$header" | sort)
[ "$known" = "$shown" ] || {
    echo "known to the parser:" $known
    echo "in the example:     " $shown
    exit 1
}
