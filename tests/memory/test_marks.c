/* test_marks.c - stale marks are recognised exactly, and never accepted, against a plain oracle
 * that remembers the lowest offset since every mark. */
#include "alloc/memory/src/internal.h"

#include "support/check_main.h"

enum { MARKS = 64 };

typedef struct oracle_mark {
    uint64_t moment;
    size_t offset;
    size_t lowest_since;
} oracle_mark;

/* Random life of an arena: allocate, mark, rewind. `depth` bounds how many rewinds nest. */
static void live(uint32_t seed, int steps, bool exact)
{
    strata__marks marks = {.moment = 0};
    oracle_mark taken[MARKS];
    size_t count = 0;
    size_t cursor = 0;
    for (int i = 0; i < steps; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t choice = seed >> 28;
        if (choice < 8) {
            cursor += (seed >> 8) % 50;
        } else if (choice < 12 && count < MARKS) {
            taken[count++] = (oracle_mark){marks.moment, cursor, cursor};
        } else if (count > 0) {
            size_t which = (seed >> 8) % count;
            bool good = taken[which].lowest_since >= taken[which].offset;
            bool said = strata__marks_is_good(&marks, taken[which].moment, taken[which].offset);
            ck_assert_msg(!said || good, "a stale mark was accepted (seed %u)", seed);
            ck_assert_msg(!exact || said == good, "a good mark was refused (seed %u)", seed);
            if (said) {
                cursor = taken[which].offset;
                strata__marks_rewound(&marks, cursor);
                for (size_t k = 0; k < count; k++) {
                    taken[k].lowest_since = cursor < taken[k].lowest_since ? cursor
                                                                           : taken[k].lowest_since;
                }
            } else {
                taken[which] = taken[--count];
            }
        }
    }
}

START_TEST(stale_is_exact_for_lives_of_few_rewinds)
{
    for (uint32_t seed = 1; seed < 3000; seed++) {
        live(seed, 40, true); /* too short a life for more than 64 rising rewinds */
    }
}
END_TEST

START_TEST(no_stale_mark_is_accepted_however_long_the_life)
{
    for (uint32_t seed = 1; seed < 100; seed++) {
        live(seed, 4000, false);
    }
}
END_TEST

START_TEST(a_mark_from_the_future_is_refused)
{
    strata__marks marks = {.moment = 3};
    ck_assert(!strata__marks_is_good(&marks, 4, 0));
    ck_assert(strata__marks_is_good(&marks, 3, 0));
}
END_TEST

START_TEST(an_outer_mark_survives_a_thousand_rewinds_above_it)
{
    strata__marks marks = {.moment = 0};
    for (size_t i = 0; i < 1000; i++) {
        uint64_t moment = marks.moment;
        ck_assert(strata__marks_is_good(&marks, moment, 100 + i));
        strata__marks_rewound(&marks, 100 + i); /* each a little higher than the last */
        ck_assert(strata__marks_is_good(&marks, 0, 50));
        /* A mark of this turn is good although a rewind above it came after it. */
        ck_assert(strata__marks_is_good(&marks, moment, 100 + i));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("marks");
    TCase *tests = add_case(suite, "marks");
    tcase_add_test(tests, stale_is_exact_for_lives_of_few_rewinds);
    tcase_add_test(tests, no_stale_mark_is_accepted_however_long_the_life);
    tcase_add_test(tests, a_mark_from_the_future_is_refused);
    tcase_add_test(tests, an_outer_mark_survives_a_thousand_rewinds_above_it);
    return run_suite(suite);
}
