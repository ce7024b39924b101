/* test_ledger.c - sizes that would wrap, and the account that every byte goes through. */
#include <strata/ledger.h>
#include <strata/size.h>

#include "support/check_main.h"

#include <pthread.h>
#include <string.h>

START_TEST(no_sum_or_product_of_sizes_wraps)
{
    size_t out = 7;
    ck_assert(strata_size_add(SIZE_MAX - 1, 1, &out));
    ck_assert_uint_eq(out, SIZE_MAX);
    out = 7;
    ck_assert(!strata_size_add(SIZE_MAX, 1, &out));
    ck_assert(!strata_size_multiply(SIZE_MAX / 2 + 1, 2, &out));
    ck_assert(!strata_size_multiply((size_t)1 << 32, (size_t)1 << 32, &out));
    ck_assert(!strata_size_align_up(SIZE_MAX - 3, 8, &out));
    ck_assert(!strata_size_array(SIZE_MAX / 16, 17, 16, &out));
    ck_assert_uint_eq(out, 7); /* outputs are untouched on failure */
    ck_assert(strata_size_multiply(0, SIZE_MAX, &out));
    ck_assert_uint_eq(out, 0);
    ck_assert(strata_size_align_up(SIZE_MAX - 7, 8, &out));
    ck_assert_uint_eq(out, SIZE_MAX - 7);
    ck_assert(strata_size_array(3, 17, 16, &out));
    ck_assert_uint_eq(out, 96);
}
END_TEST

START_TEST(only_powers_of_two_up_to_the_maximum_are_alignments)
{
    for (size_t align = 0; align < 5000; align++) {
        bool expected = align != 0 && __builtin_popcountll(align) == 1;
        ck_assert_int_eq(strata_align_is_valid(align), expected);
    }
    ck_assert(strata_align_is_valid(STRATA_ALIGN_MAX));
    ck_assert(!strata_align_is_valid(STRATA_ALIGN_MAX * 2));
    ck_assert(!strata_align_is_valid(SIZE_MAX));
}
END_TEST

START_TEST(a_charge_fits_in_the_whole_chain_or_nowhere)
{
    strata_ledger process;
    strata_ledger model;
    strata_ledger_counts counts;
    strata_error error;
    strata_ledger_init(&process, NULL, "the process", 100);
    strata_ledger_init(&model, &process, "rec", STRATA_UNLIMITED);
    assert_ok(strata_ledger_charge(&model, 60, &error), error);
    assert_status(strata_ledger_charge(&model, 41, &error), STRATA_BUDGET);
    ck_assert_ptr_nonnull(strstr(error.text, "the process"));
    ck_assert_ptr_nonnull(strstr(error.text, "100 bytes"));
    strata_ledger_read(&model, &counts);
    ck_assert_uint_eq(counts.committed_bytes, 60); /* the refused part is not left in the model */
    assert_ok(strata_ledger_charge(&model, 40, &error), error);
    assert_status(strata_ledger_charge(&model, UINT64_MAX, &error), STRATA_BUDGET);
    strata_ledger_refund(&model, 100);
    strata_ledger_read(&process, &counts);
    ck_assert_uint_eq(counts.committed_bytes, 0);
    ck_assert_uint_eq(counts.committed_peak_bytes, 100);
}
END_TEST

static strata_ledger shared_process;
static strata_ledger shared_models[2];

static void *charge_and_refund(void *argument)
{
    strata_ledger *ledger = argument;
    for (int i = 0; i < 20000; i++) {
        if (strata_ledger_charge(ledger, 3, NULL) == STRATA_OK) {
            strata_ledger_counts counts;
            strata_ledger_read(&shared_process, &counts);
            ck_assert_uint_le(counts.committed_bytes, 10);
            strata_ledger_refund(ledger, 3);
        }
    }
    return NULL;
}

START_TEST(a_budget_is_never_exceeded_by_racing_charges)
{
    pthread_t threads[4];
    strata_ledger_counts counts;
    strata_ledger_init(&shared_process, NULL, "p", 10);
    strata_ledger_init(&shared_models[0], &shared_process, "a", STRATA_UNLIMITED);
    strata_ledger_init(&shared_models[1], &shared_process, "b", 6);
    for (int i = 0; i < 4; i++) {
        (void)pthread_create(&threads[i], NULL, charge_and_refund, &shared_models[i % 2]);
    }
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    strata_ledger_read(&shared_process, &counts);
    ck_assert_uint_eq(counts.committed_bytes, 0);
    ck_assert_uint_le(counts.committed_peak_bytes, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ledger");
    TCase *tests = add_case(suite, "ledger");
    tcase_add_test(tests, no_sum_or_product_of_sizes_wraps);
    tcase_add_test(tests, only_powers_of_two_up_to_the_maximum_are_alignments);
    tcase_add_test(tests, a_charge_fits_in_the_whole_chain_or_nowhere);
    tcase_add_test(tests, a_budget_is_never_exceeded_by_racing_charges);
    return run_suite(suite);
}
