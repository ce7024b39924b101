/* test_arena.c - bump allocation: aligned, inside, never overlapping, never wrapping; marks, guard,
 * end. */
#include <strata/arena.h>
#include <strata/host.h>

#include "fixture.h"

#include <errno.h>
#include <string.h>

static strata_arena_config config_of(size_t reserve, strata_guard guard)
{
    strata_arena_config config;
    strata_arena_config_init(&config);
    config.region.reserve_bytes = reserve;
    config.guard = guard;
    return config;
}

static strata_arena *open_arena(size_t reserve, strata_guard guard)
{
    strata_arena_config config = config_of(reserve, guard);
    strata_arena *arena = NULL;
    assert_ok(strata_arena_open(&arena, &host.backend, &ledger, &memory.memory, &config, &error),
              error);
    return arena;
}

static void end(strata_arena *arena)
{
    assert_ok(strata_arena_close(arena, NULL, &error), error);
    strata_arena_destroy(arena);
    assert_all_returned();
}

static strata_arena_info read_info(const strata_arena *arena)
{
    strata_arena_info info;
    strata_arena_read(arena, &info);
    return info;
}

START_TEST(every_call_fails_in_turn_and_nothing_is_left)
{
    uint64_t injected = 1;
    for (uint64_t n = 1; injected > 0; n++) {
        strata_arena_config config = config_of(64 * MIB, STRATA_GUARD_OFF);
        config.region.first_bytes = 2 * MIB;
        config.region.prefault = true;
        strata_arena *arena = NULL;
        fake_system_fail(&fake, FAKE_ANY, n, false, ENOMEM);
        if (strata_arena_open(&arena, &host.backend, &ledger, &memory.memory, &config, &error) ==
            STRATA_OK) {
            for (int i = 0; i < 20; i++) {
                unsigned char *block = strata_arena_alloc(arena, MIB, 64);
                if (block != NULL) {
                    memset(block, i, MIB);
                } else {
                    ck_assert_int_ne(strata_arena_error(arena)->status, STRATA_OK);
                }
            }
            if (strata_arena_close(arena, NULL, &error) != STRATA_OK) {
                ck_assert_ptr_null(strata_arena_alloc(arena, 1, 1)); /* closed all the same */
                assert_ok(strata_arena_close(arena, NULL, &error), error);
            }
            strata_arena_destroy(arena);
        }
        injected = fake_system_injected(&fake);
        fake_system_heal(&fake);
        ck_assert(fake_system_is_clean(&fake));
        ck_assert_uint_eq(fake_memory_live(&memory), 0);
    }
    for (uint64_t n = 1; n <= 2; n++) {
        strata_arena_config config = config_of(MIB, STRATA_GUARD_OFF);
        strata_arena *arena = NULL;
        fake_memory_fail(&memory, n, false);
        assert_status(
            strata_arena_open(&arena, &host.backend, &ledger, &memory.memory, &config, &error),
            STRATA_NO_MEMORY);
        ck_assert_uint_eq(fake_memory_live(&memory), 0);
    }
}
END_TEST

/* Case 24: alignments from 1 byte to 2 MiB at every remainder of an extent's end. */
START_TEST(any_alignment_at_any_remainder_is_aligned_inside_and_apart)
{
    static const strata_guard guards[] = {STRATA_GUARD_OFF, STRATA_GUARD_ON};
    for (int g = 0; g < 2; g++) {
        for (size_t align = 1; align <= 2 * MIB; align *= 2) {
            for (size_t remainder = 0; remainder < 70; remainder++) {
                strata_arena *arena = open_arena(64 * MIB, guards[g]);
                const char *base = read_info(arena).region.base;
                /* Up to `remainder` bytes before the end of the first extent. */
                unsigned char *first = strata_arena_alloc(arena, 2 * MIB - remainder, 1);
                ck_assert_ptr_eq(first, base);
                unsigned char *before = first + 2 * MIB - remainder;
                for (size_t size = 1; size <= 4096; size = size * 3 + 1) {
                    unsigned char *block = strata_arena_alloc(arena, size, align);
                    ck_assert_ptr_nonnull(block);
                    ck_assert_uint_eq((uintptr_t)block & (align - 1), 0);
                    ck_assert(block >= before);
                    memset(block, 0xAB, size);
                    before = block + size;
                }
                strata_arena_info info = read_info(arena);
                ck_assert((const char *)before <= base + info.region.committed_bytes);
                ck_assert(info.used_bytes <= info.region.committed_bytes);
                end(arena);
            }
        }
    }
}
END_TEST

/* Case 25: size + alignment + offset that wraps around. */
START_TEST(sizes_and_alignments_that_wrap_are_refused_on_both_paths)
{
    static const size_t sizes[] = {SIZE_MAX,          SIZE_MAX - 1,    SIZE_MAX - 63,
                                   SIZE_MAX - 64,     SIZE_MAX / 2,    SIZE_MAX / 2 + 1,
                                   SIZE_MAX / 2 - 63, (size_t)1 << 62, (size_t)1 << 48};
    static const size_t bad_aligns[] = {
        0, 3, 5, 6, 7, 12, 4097, SIZE_MAX, (size_t)1 << 63, STRATA_ALIGN_MAX * 2};
    static const strata_guard guards[] = {STRATA_GUARD_OFF, STRATA_GUARD_ON};
    for (int g = 0; g < 2; g++) {
        strata_arena *arena = open_arena(16 * MIB, guards[g]);
        unsigned char *block = strata_arena_alloc(arena, 100, 1);
        memset(block, 1, 100);
        size_t used = read_info(arena).used_bytes;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (size_t align = 1; align <= STRATA_ALIGN_MAX; align *= 2) {
                ck_assert_ptr_null(strata_arena_alloc(arena, sizes[i], align));
                ck_assert_ptr_null(strata_arena_take(arena, sizes[i], align));
                strata_status status = strata_arena_error(arena)->status;
                ck_assert(status == STRATA_INVALID || status == STRATA_LIMIT);
            }
        }
        for (size_t i = 0; i < sizeof bad_aligns / sizeof *bad_aligns; i++) {
            for (size_t size = 0; size < 3; size++) {
                ck_assert_ptr_null(strata_arena_alloc(arena, size, bad_aligns[i]));
                ck_assert_int_eq(strata_arena_error(arena)->status, STRATA_INVALID);
            }
        }
        ck_assert_uint_eq(read_info(arena).used_bytes, used); /* nothing moved */
        end(arena);
    }
}
END_TEST

/* Case 26. */
START_TEST(a_size_of_zero_gives_a_unique_address_inside)
{
    static const strata_guard guards[] = {STRATA_GUARD_OFF, STRATA_GUARD_ON};
    for (int g = 0; g < 2; g++) {
        strata_arena *arena = open_arena(4 * MIB, guards[g]);
        void *before = NULL;
        for (int i = 0; i < 1000; i++) {
            void *block = strata_arena_alloc(arena, 0, 1);
            ck_assert_ptr_nonnull(block);
            ck_assert_ptr_ne(block, before);
            ck_assert(strata_arena_owns(arena, block));
            before = block;
        }
        /* At the very end of the reservation there is none left. */
        size_t used = read_info(arena).used_bytes;
        if (guards[g] == STRATA_GUARD_OFF) {
            ck_assert_ptr_nonnull(strata_arena_alloc(arena, 4 * MIB - used, 1));
            ck_assert_ptr_null(strata_arena_alloc(arena, 0, 1));
        }
        end(arena);
    }
}
END_TEST

START_TEST(a_full_arena_fails_with_the_key_to_raise_and_goes_on_serving)
{
    strata_arena *arena = open_arena(2 * MIB, STRATA_GUARD_OFF);
    ck_assert_ptr_nonnull(strata_arena_alloc(arena, MIB, 64));
    ck_assert_ptr_null(strata_arena_alloc(arena, MIB + 1, 64));
    ck_assert_int_eq(strata_arena_error(arena)->status, STRATA_LIMIT);
    ck_assert_ptr_nonnull(strstr(strata_arena_error(arena)->text, "arena.reserve"));
    ck_assert_ptr_nonnull(strata_arena_alloc(arena, MIB, 64));
    ck_assert_ptr_null(strata_arena_alloc(arena, 1, 1));
    end(arena);
}
END_TEST

START_TEST(a_closed_arena_fails_late_calls_and_closes_again)
{
    strata_arena *arena = open_arena(4 * MIB, STRATA_GUARD_OFF);
    strata_arena_mark mark = strata_arena_get_mark(arena);
    ck_assert_ptr_nonnull(strata_arena_alloc(arena, 10, 1));
    assert_ok(strata_arena_close(arena, NULL, &error), error);
    ck_assert_ptr_null(strata_arena_alloc(arena, 1, 1));
    ck_assert_ptr_null(strata_arena_alloc(arena, 0, 1));
    ck_assert_int_eq(strata_arena_error(arena)->status, STRATA_CLOSED);
    assert_status(strata_arena_rewind(arena, mark), STRATA_CLOSED);
    assert_status(strata_arena_clear(arena), STRATA_CLOSED);
    assert_status(strata_arena_trim(arena, &error), STRATA_CLOSED);
    assert_ok(strata_arena_close(arena, NULL, &error), error);
    ck_assert_uint_eq(read_info(arena).used_peak_bytes, 10);
    strata_arena_destroy(arena);
    strata_arena_destroy(NULL);
}
END_TEST

/* Case 27: rewind to empty, clear and close in any order. */
START_TEST(rewind_clear_trim_and_close_in_any_order_return_nothing_twice)
{
    for (unsigned sequence = 0; sequence < 4u * 4u * 4u * 4u; sequence++) {
        strata_arena *arena = open_arena(8 * MIB, STRATA_GUARD_OFF);
        strata_arena_mark start = strata_arena_get_mark(arena);
        ck_assert_ptr_nonnull(strata_arena_alloc(arena, 3 * MIB, 1));
        unsigned rest = sequence;
        for (int i = 0; i < 4; i++, rest /= 4) {
            switch (rest % 4) {
            case 0:
                (void)strata_arena_rewind(arena, start);
                break;
            case 1:
                (void)strata_arena_clear(arena);
                break;
            case 2:
                (void)strata_arena_trim(arena, &error);
                break;
            default:
                (void)strata_arena_close(arena, NULL, &error);
                break;
            }
        }
        end(arena);
        ck_assert_uint_eq(fake.stray_unmaps, 0);
    }
}
END_TEST

START_TEST(stale_and_foreign_marks_are_refused_and_change_nothing)
{
    strata_arena *arena = open_arena(4 * MIB, STRATA_GUARD_OFF);
    strata_arena *other = open_arena(4 * MIB, STRATA_GUARD_OFF);
    (void)strata_arena_alloc(arena, 100, 1);
    strata_arena_mark outer = strata_arena_get_mark(arena);
    (void)strata_arena_alloc(arena, 100, 1);
    strata_arena_mark inner = strata_arena_get_mark(arena);
    (void)strata_arena_alloc(arena, 100, 1);
    assert_status(strata_arena_rewind(other, inner), STRATA_INVALID);
    assert_status(strata_arena_rewind(arena, outer), STRATA_OK);
    (void)strata_arena_alloc(arena, 1000, 1); /* past the inner mark again */
    assert_status(strata_arena_rewind(arena, inner), STRATA_INVALID);
    ck_assert_uint_eq(read_info(arena).used_bytes, 1100);
    assert_status(strata_arena_rewind(arena, outer), STRATA_OK); /* as often as one likes */
    assert_status(strata_arena_rewind(arena, outer), STRATA_OK);
    ck_assert_uint_eq(read_info(arena).used_bytes, 100);
    assert_ok(strata_arena_close(arena, NULL, &error), error);
    strata_arena_destroy(arena);
    end(other);
}
END_TEST

START_TEST(rewinding_keeps_memory_committed_until_trim)
{
    strata_arena *arena = open_arena(64 * MIB, STRATA_GUARD_OFF);
    memset(strata_arena_alloc(arena, 20 * MIB, 64), 1, 20 * MIB);
    size_t committed = read_info(arena).region.committed_bytes;
    assert_status(strata_arena_clear(arena), STRATA_OK);
    ck_assert_uint_eq(read_info(arena).region.committed_bytes, committed);
    assert_ok(strata_arena_trim(arena, &error), error);
    ck_assert_uint_eq(read_info(arena).region.committed_bytes, 0);
    ck_assert_uint_eq(read_info(arena).used_peak_bytes, 20 * MIB);
    unsigned char *again = strata_arena_alloc(arena, 3 * MIB, 64);
    ck_assert_ptr_nonnull(again);
    ck_assert_int_eq(again[3 * MIB - 1], 0);
    end(arena);
}
END_TEST

/* --- the guard: case 11 ------------------------------------------------------------------------*/

/* AddressSanitizer stops a program at the access itself: dies_after_rewind.c. These are for where
 * nobody watches. */
START_TEST(a_write_after_a_rewind_is_caught_when_the_memory_is_used_again)
{
    strata_arena *arena = open_arena(4 * MIB, STRATA_GUARD_ON);
    if (__builtin_expect(!read_info(arena).guarded, 0)) {
        ck_abort_msg("a guard that was asked for is missing");
    }
    strata_arena_mark mark = strata_arena_get_mark(arena);
    volatile unsigned char *kept = strata_arena_alloc(arena, 100, 16);
    kept[50] = 1;
    assert_status(strata_arena_rewind(arena, mark), STRATA_OK);
    ck_assert_int_eq(kept[50], 0xDD); /* a read sees the pattern */
    kept[50] = 2;
    ck_assert_ptr_null(strata_arena_alloc(arena, 200, 16));
    ck_assert_int_eq(strata_arena_error(arena)->status, STRATA_CORRUPT);
    ck_assert_ptr_nonnull(strstr(strata_arena_error(arena)->text, "after a rewind"));
    ck_assert_ptr_nonnull(strata_arena_alloc(arena, 200, 16)); /* said once, then it serves again */
    assert_ok(strata_arena_close(arena, NULL, &error), error);
    strata_arena_destroy(arena);
}
END_TEST

START_TEST(a_write_past_the_end_of_any_block_is_caught_at_the_rewind_and_at_the_close)
{
    for (int which = 0; which < 10; which++) {
        for (int at_close = 0; at_close < 2; at_close++) {
            strata_arena *arena = open_arena(4 * MIB, STRATA_GUARD_ON);
            strata_arena_mark mark = strata_arena_get_mark(arena);
            for (int i = 0; i < 10; i++) {
                size_t size = (size_t)i * 7 + 1;
                volatile unsigned char *block = strata_arena_alloc(arena, size, 1);
                block[size - 1] = 1;
                if (i == which) {
                    block[size] = 1; /* one byte too far */
                }
            }
            if (at_close != 0) {
                assert_status(strata_arena_close(arena, NULL, &error), STRATA_CORRUPT);
                ck_assert(fake_system_is_clean(&fake)); /* returned all the same */
            } else {
                assert_status(strata_arena_rewind(arena, mark), STRATA_CORRUPT);
                ck_assert_uint_eq(read_info(arena).used_bytes, 0); /* rewound all the same */
                assert_ok(strata_arena_close(arena, NULL, &error), error);
            }
            strata_arena_destroy(arena);
        }
    }
}
END_TEST

/* Every way in which dropped memory goes for good without having been handed out again. */
START_TEST(a_write_after_a_rewind_is_caught_at_the_latest_when_the_memory_goes)
{
    enum { CLOSE, TRIM, CLEAR_TWICE, SMALLER, WAYS };
    for (int way = 0; way < WAYS; way++) {
        strata_arena *arena = open_arena(4 * MIB, STRATA_GUARD_ON);
        strata_arena_mark mark = strata_arena_get_mark(arena);
        volatile unsigned char *kept = strata_arena_alloc(arena, 1000, 16);
        if (way == CLEAR_TWICE) {
            assert_status(strata_arena_clear(arena), STRATA_OK);
        } else {
            assert_status(strata_arena_rewind(arena, mark), STRATA_OK);
        }
        if (way == SMALLER) {
            ck_assert_ptr_nonnull(strata_arena_alloc(arena, 10, 16));
        }
        kept[500] = 2;
        if (way == CLEAR_TWICE) {
            assert_status(strata_arena_clear(arena), STRATA_OK);
        }
        if (way == TRIM) {
            assert_status(strata_arena_trim(arena, &error), STRATA_CORRUPT);
            ck_assert_uint_eq(read_info(arena).region.committed_bytes, 0);
            assert_ok(strata_arena_close(arena, NULL, &error), error);
        } else {
            assert_status(strata_arena_close(arena, NULL, &error), STRATA_CORRUPT);
        }
        ck_assert_ptr_nonnull(strstr(error.text, way == TRIM ? "" : "after a rewind"));
        strata_arena_destroy(arena);
        ck_assert(fake_system_is_clean(&fake));
    }
}
END_TEST

START_TEST(a_footer_that_is_written_over_ends_the_walk_and_not_the_program)
{
    strata_arena *arena = open_arena(4 * MIB, STRATA_GUARD_ON);
    unsigned char *block = strata_arena_alloc(arena, 64, 64);
    (void)strata_arena_alloc(arena, 64, 64);
    memset(block, 0x41, 128); /* over canary and footer, into the next block */
    assert_status(strata_arena_clear(arena), STRATA_CORRUPT);
    ck_assert_ptr_nonnull(strata_arena_alloc(arena, 64, 64));
    end(arena);
}
END_TEST

START_TEST(guarded_arenas_serve_correct_callers)
{
    strata_arena *arena = open_arena(64 * MIB, STRATA_GUARD_ON);
    uint32_t seed = 3;
    for (int round = 0; round < 50; round++) {
        strata_arena_mark mark = strata_arena_get_mark(arena);
        for (int i = 0; i < 50; i++) {
            seed = seed * 1664525u + 1013904223u;
            size_t size = seed >> 20;
            unsigned char *block = strata_arena_alloc(arena, size, (size_t)1 << (seed % 13));
            ck_assert_ptr_nonnull(block);
            memset(block, 7, size);
        }
        if (round % 3 == 0) {
            assert_status(strata_arena_rewind(arena, mark), STRATA_OK);
        }
        if (round % 7 == 0) {
            assert_ok(strata_arena_trim(arena, &error), error);
        }
    }
    end(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tests = add_case(suite, "arena");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, every_call_fails_in_turn_and_nothing_is_left);
    tcase_add_test(tests, any_alignment_at_any_remainder_is_aligned_inside_and_apart);
    tcase_add_test(tests, sizes_and_alignments_that_wrap_are_refused_on_both_paths);
    tcase_add_test(tests, a_size_of_zero_gives_a_unique_address_inside);
    tcase_add_test(tests, a_full_arena_fails_with_the_key_to_raise_and_goes_on_serving);
    tcase_add_test(tests, a_closed_arena_fails_late_calls_and_closes_again);
    tcase_add_test(tests, rewind_clear_trim_and_close_in_any_order_return_nothing_twice);
    tcase_add_test(tests, stale_and_foreign_marks_are_refused_and_change_nothing);
    tcase_add_test(tests, rewinding_keeps_memory_committed_until_trim);
    tcase_add_test(tests, guarded_arenas_serve_correct_callers);
    if (!memory_is_watched()) {
        tcase_add_test(tests, a_write_after_a_rewind_is_caught_when_the_memory_is_used_again);
        tcase_add_test(tests,
                       a_write_past_the_end_of_any_block_is_caught_at_the_rewind_and_at_the_close);
        tcase_add_test(tests, a_write_after_a_rewind_is_caught_at_the_latest_when_the_memory_goes);
        tcase_add_test(tests, a_footer_that_is_written_over_ends_the_walk_and_not_the_program);
    }
    return run_suite(suite);
}
