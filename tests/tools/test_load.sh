#!/bin/sh
# test_load.sh - `strata load`: what loads, what is refused before anything is reserved, what fails
# midway and gives everything back. Numbers (case 41) are scenarios that users of comparable
# software met; what a header may say is tested with the readers, here is what the command makes of
# it.

set -u
# shellcheck source=tests/tools/lib.sh
. "$(dirname "$0")/lib.sh"

make() {
    "$helpers/make_model" "$1" "$2" || complain "make_model $1"
}

for kind in gguf gguf-align16 safetensors misaligned empty-header empty-metadata; do
    make "$kind" "$work/$kind"
done

# loads KIND MEMORY TENSORS FORMAT
loads() {
    run load --json --verify --memory "$2" --steps 3 "$work/$1"
    expect_status 0
    if [ -s "$work/err" ]; then
        complain "nothing on stderr expected"
    fi
    expect_value ok true
    expect_value models.0.label "${1%.*}"
    expect_value models.0.file "$work/$1"
    expect_value models.0.format "$4"
    expect_value models.0.tensors "$3"
    expect_value models.0.verified_tensors "$3"
    expect_value models.0.steps 3
    expect_value models.0.regions 3
    expect_value models.0.regions.0.label weights
    expect_value models.0.regions.0.memory "$2"
    expect_value models.0.release.status ok
    expect_value models.0.release.failed 0
    expect_value models.0.release.attempted 3
    expect_value models.0.release.order.0 scratch
    expect_value models.0.release.order.2 weights
    expect_value models.0.release.bytes_held_after 0
    expect_value models.0.release.stranded_bytes 0
    expect_value models.0.release.verdict verified
    expect_value cycles.0.held_after 0
    unmaps=$(value models.0.release.unmaps)
    expect_value models.0.release.mappings "$unmaps"
}

# --- what loads, in both kinds of memory ---
for memory in host file; do
    loads gguf "$memory" 12 gguf
    loads gguf-align16 "$memory" 12 gguf # case 39
    loads safetensors "$memory" 3 safetensors
    loads misaligned "$memory" 2 safetensors
    loads empty-header "$memory" 0 safetensors # case 44
    loads empty-metadata "$memory" 0 safetensors
done

# The document has every key that scripts read.
run load --json "$work/gguf"
expect_keys . models cycles ok
expect_keys models.0 label file format tensors weight_bytes load_seconds load_bytes_per_second \
    verified_tensors steps regions release
expect_keys models.0.regions.0 label memory reserve_bytes committed_bytes used_bytes extents pages
expect_keys models.0.release label status attempted failed order failures bytes_held_before \
    bytes_held_after stranded_bytes unmaps mappings tlb_shootdowns seconds verdict
expect_keys cycles.0 held_after resident_after mapping_operations
expect_value models.0.verified_tensors 0
expect_value models.0.steps 4
expect_value models.0.weight_bytes 1309357
expect_at_least models.0.regions.0.used_bytes 1309357
expect_at_least models.0.release.bytes_held_before 1309357

# Case 46: copies are aligned; in place the command says so.
run load --json --set weights.guard:off "$work/misaligned"
expect_value models.0.misaligned_tensors 0
run load --json --memory file "$work/misaligned"
expect_value models.0.misaligned_tensors 1
run load --memory file "$work/misaligned"
expect_status 0
grep -q '1 tensors lie in the file' "$work/out" || complain "the misaligned tensor is not said"

# Several models, released newest first; each with its own label.
run load --json "$work/gguf" "$work/safetensors"
expect_status 0
expect_value models 2
expect_value models.1.label safetensors
expect_value models.1.release.bytes_held_after 0

# What is configured is what happens: files first, then --set lines, and the label.
printf '[model]\nlabel = mine\n[kv]\nfirst = 4MiB\n[all]\npages = default\n' >"$work/one.ini"
printf '[kv]\nfirst = 6MiB\n' >"$work/two.ini"
run load --json --config "$work/one.ini" --config "$work/two.ini" "$work/gguf"
expect_status 0
expect_value models.0.label mine
expect_value models.0.regions.1.committed_bytes 6291456
expect_value models.0.regions.1.pages default
run load --json --config "$work/one.ini" --set kv.first:8MiB "$work/gguf"
expect_value models.0.regions.1.committed_bytes 8388608

# A table for people.
run load --verify "$work/gguf"
expect_status 0
grep -q '12 tensors read again, equal' "$work/out" || complain "no word about --verify"
grep -q 'verified' "$work/out" || complain "no verdict"
grep -q '3 resource(s) released: scratch, kv, weights$' "$work/out" || complain "no names"

# --- what is refused, before anything is reserved ---
# With a budget that nothing fits in, anything reserved would show as a budget error instead.
bad_model() {
    make "$1" "$work/bad"
    for memory in host file; do
        refused "$work/bad: |$2" load --json --memory "$memory" --set model.budget:4096 "$work/bad"
    done
}
bad_model wraps 'blk.0.weight'                  # case 37
bad_model bad-row 'blk.0.weight|Q6_K'           # case 38
bad_model removed-type 'blk.0.weight|type'      # case 38
bad_model align0 'general.alignment'            # case 39
bad_model align12 'general.alignment'           # case 39
bad_model long-array 'tokenizer.list'           # case 40
bad_model far-offset 'blk.0.weight'             # case 41
bad_model big-endian 'big-endian'               # case 43
bad_model integer-metadata 'epoch'              # case 44
bad_model duplicate-key 'same.weight'           # case 44
bad_model broken-json 'JSON'                    # case 44
bad_model negative-shape 'a.weight'             # case 45
bad_model swapped-offsets 'a.weight'            # case 45
bad_model long-header '100000000'               # case 47
bad_model lfs-pointer 'Git LFS pointer'         # case 47
bad_model noise 'not a model file'
refused '/dev/zero: not a regular file' load /dev/zero
mkfifo "$work/pipe"
refused 'pipe: not a regular file' load "$work/pipe"
refused 'a directory' load "$work"
: >"$work/empty"
refused "$work/empty: " load "$work/empty"
# One bad file among good ones: nothing is loaded.
make wraps "$work/bad"
refused "$work/bad: " load --json "$work/gguf" "$work/bad"

# Case 41: every prefix of a header, and some of the data, in both kinds of memory.
prefixes() {
    size=$(wc -c <"$work/$1")
    length=0
    while [ "$length" -lt "$size" ]; do
        head -c "$length" "$work/$1" >"$work/prefix"
        for memory in host file; do
            run load --memory "$memory" "$work/prefix"
            expect_status 2
            expect_line "$work/prefix: "
        done
        if [ "$length" -lt 64 ]; then
            length=$((length + 1))
        elif [ "$length" -lt 2000 ]; then
            length=$((length + 97))
        else
            length=$((length + 33333))
        fi
    done
}
prefixes gguf
prefixes safetensors

# Case 45: tensors at 3 and 5 GiB of a sparse file, exact; holes are neither read nor charged.
make sparse "$work/sparse.gguf"
for memory in host file; do
    run load --json --verify --memory "$memory" "$work/sparse.gguf"
    expect_status 0
    expect_value models.0.verified_tensors 2
    expect_value models.0.weight_bytes 8192
done
run load --json "$work/sparse.gguf"
expect_value models.0.reads 2
expect_value models.0.regions.0.committed_bytes 2097152
rm -f "$work/sparse.gguf"

# --- what does not fit ---
run load --set model.budget:1MiB "$work/gguf"
expect_status 2
grep -q 'budget' "$work/err" || complain "the budget is not named"
grep -q '^gguf: nothing had to be released$' "$work/out" || complain "what was undone is not said"
run load --json --set model.budget:1MiB "$work/gguf"
expect_status 2
expect_value ok false
expect_value models.0.error.status budget
expect_value models.0.release.bytes_held_after 0
expect_value cycles.0.held_after 0
# The second model does not fit: the first is given back all the same.
make large "$work/large"
run load --json --set model.budget:6MiB "$work/gguf" "$work/large"
expect_status 2
grep -q "$work/large: " "$work/err" || complain "the model that failed is not named"
expect_value ok false
expect_value models 2
expect_value models.0.steps 4
expect_value models.0.error null
expect_value models.0.release.bytes_held_after 0
expect_value models.1.error.status budget
expect_value cycles.0.held_after 0
# A step that does not fit names the key to raise.
run load --json --set scratch.pages:default,scratch.reserve:64KiB "$work/gguf"
expect_status 2
grep -q 'scratch.reserve' "$work/err" || complain "the key to raise is not named"
expect_value models.0.steps 0
expect_value models.0.release.bytes_held_after 0
run load --set kv.reserve:2MiB,kv.first:4MiB "$work/gguf"
expect_status 2
run load --set weights.guard:on --memory file "$work/gguf"
expect_status 2
grep -q 'weights.guard' "$work/err" || complain "the key is not named"
# RLIMIT_AS: another setting would let it through, so it is unusable input, with the limit's name.
if [ -z "${STRATA_TEST_SANITIZED:-}" ]; then
    run_limited 1048576 load --json --set kv.reserve:64GiB "$work/gguf"
    expect_status 2
    grep -q 'RLIMIT_AS' "$work/err" || complain "the limit is not named"
    expect_value models.0.error.status limit
    expect_value models.0.undo.status ok
    expect_value models.0.undo.order.0 weights
    expect_value cycles.0.held_after 0
fi

# --- reads on bad days (case 49) ---
hostile() {
    what="strata load, HOSTILE_READ=$1"
    how=$1
    shift
    status=0
    HOSTILE_READ=$how LD_PRELOAD=$helpers/libhostile_system.so \
        ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" \
        "$strata" load --json --verify "$@" "$work/victim" >"$work/out" 2>"$work/err" || status=$?
}
cp "$work/safetensors" "$work/victim"
for how in seven eintr; do
    hostile "$how"
    expect_status 0
    expect_value models.0.verified_tensors 3
done
# Cut before the n-th read, for every n until one load is not disturbed any more. Whichever read it
# is: refused while opening (2) or failed (1), never a signal, and nothing is held afterwards.
cut_at_every_read() {
    n=1
    failed=0
    while [ "$n" -le 40 ]; do
        cp "$work/safetensors" "$work/victim"
        hostile "$1:$n" --memory "$2"
        if [ "$status" -eq 0 ]; then
            break
        fi
        checks=$((checks + 1))
        if [ "$status" -ne 1 ] && [ "$status" -ne 2 ]; then
            complain "status 1 or 2 expected"
        fi
        if [ "$(wc -l <"$work/err")" -ne 1 ]; then
            complain "one line on stderr expected"
        fi
        if [ "$status" -eq 1 ]; then
            failed=$((failed + 1))
            expect_value ok false
            expect_value models.0.release.bytes_held_after 0
            expect_value cycles.0.held_after 0
        fi
        n=$((n + 1))
    done
    checks=$((checks + 1))
    if [ "$failed" -eq 0 ] || [ "$n" -gt 40 ]; then
        complain "the file was never cut during the load, or always"
    fi
}
cut_at_every_read shrink host
cut_at_every_read shrink file
# What is mapped has gone after it was read from the file: EFAULT instead of SIGBUS.
cut_at_every_read mapped file

# A bit that is wrong in memory is found by --verify, which names the tensor. Some of the reads are
# the header's, and some are the verification's own: then it differs as well.
for memory in host file; do
    n=1
    found=0
    while [ "$n" -le 40 ]; do
        cp "$work/safetensors" "$work/victim"
        hostile "flip:$n" --memory "$memory"
        if grep -q 'verify: tensor .*: memory and file differ' "$work/err"; then
            found=$((found + 1))
            expect_status 1
            expect_value models.0.error.status corrupt
            expect_value models.0.release.bytes_held_after 0
        fi
        n=$((n + 1))
    done
    checks=$((checks + 1))
    # Two tensors have bytes: read once or mapped, and once to compare.
    if [ "$found" -lt 2 ]; then
        complain "only $found of the wrong bits were found in memory $memory"
    fi
done

# --- a release that does not work is a failure, with all of it reported ---
give_back() {
    what="strata load, HOSTILE_UNMAP=$1"
    status=0
    HOSTILE_UNMAP=$1 LD_PRELOAD=$helpers/libhostile_system.so \
        ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0:detect_leaks=0" \
        "$strata" load --json --set kv.first:2MiB "$work/gguf" >"$work/out" 2>"$work/err" ||
        status=$?
    expect_status 1
    expect_value ok false
    expect_value models.0.error null
    grep -q 'release' "$work/err" || complain "the release is not said to have failed"
}
give_back fail
expect_value models.0.release.status no_memory
expect_value models.0.release.attempted 3
expect_value models.0.release.failed 3
expect_value models.0.release.failures 3
expect_value models.0.release.failures.0.label scratch
expect_value models.0.release.failures.2.label weights
expect_value models.0.release.failures.2.native 12
expect_value models.0.release.unmaps 0
held=$(value models.0.release.bytes_held_before)
expect_value models.0.release.stranded_bytes "$held"
expect_value cycles.0.held_after "$held"
# Success that gives nothing back: the verdict is short, by what was held.
give_back lie
expect_value models.0.release.verdict short
expect_at_least models.0.release.short_bytes 1

finish
