#!/bin/sh
# package.sh CMAKE GENERATOR BUILD SOURCE WORK - installs the build into WORK and builds and runs an outside
# consumer against it, from a folder that knows nothing of this tree.
set -eu
cmake=$1 generator=$2 build=$3 source=$4 work=$5
rm -rf "$work"
"$cmake" --install "$build" --prefix "$work/installed" >"$work.log" 2>&1 || { cat "$work.log"; exit 1; }
"$cmake" -G "$generator" -S "$source" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/installed" \
    -DCMAKE_BUILD_TYPE=Debug >"$work.log" 2>&1 || { cat "$work.log"; exit 1; }
"$cmake" --build "$work/consumer" >"$work.log" 2>&1 || { cat "$work.log"; exit 1; }
for program in core_only core_static with_heap; do
    if [ -x "$work/consumer/$program" ]; then
        "$work/consumer/$program"
    fi
done
# The same with plain flags, as pkg-config gives them.
pc=$(dirname "$(find "$work/installed" -name strata-heap.pc)")
# shellcheck disable=SC2046 # flags are words
cc "$source/core_only.c" $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs strata) \
    -o "$work/core_by_pkg_config"
"$work/core_by_pkg_config" >/dev/null
# shellcheck disable=SC2046
c++ -std=c++17 "$source/with_heap.cpp" \
    $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs strata-heap strata) -o "$work/heap_by_pkg_config"
"$work/heap_by_pkg_config" >/dev/null
# The core needs nothing but libc, and can be loaded at run time.
needed=$(readelf -d "$work"/installed/lib*/libstrata.so "$work"/installed/lib*/*/libstrata.so \
    2>/dev/null | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' | sort -u | tr '\n' ' ')
[ "$needed" = "libc.so.6 " ] || { echo "libstrata.so needs: $needed"; exit 1; }
