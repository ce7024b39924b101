/* test_region.c - regions over the host and file backends: reserved once, few mappings, returned
 * whole by one unmap; every system call made to fail in turn. */
#include <strata/host.h>
#include <strata/region.h>

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static strata_region_config config_of(size_t reserve, size_t first)
{
    strata_region_config config;
    strata_region_config_init(&config);
    config.label = "weights";
    config.reserve_bytes = reserve;
    config.first_bytes = first;
    return config;
}

static strata_ledger_counts counts(void)
{
    strata_ledger_counts out;
    strata_ledger_read(&ledger, &out);
    return out;
}

static strata_region *create(const strata_region_config *config)
{
    strata_region *region = NULL;
    assert_ok(strata_region_create(&region, &host.backend, &ledger, &memory.memory, config, &error),
              error);
    return region;
}

static void end(strata_region *region)
{
    assert_ok(strata_region_release(region, NULL, &error), error);
    strata_region_destroy(region);
}

START_TEST(every_call_fails_in_turn_and_nothing_is_left)
{
    static const int errors[] = {ENOMEM, EINVAL, EAGAIN, EACCES};
    for (int pages = STRATA_PAGES_DEFAULT; pages <= STRATA_PAGES_HUGETLB; pages++) {
        for (int e = 0; e < 4; e++) {
            uint64_t injected = 1;
            for (uint64_t n = 1; injected > 0; n++) {
                ck_assert_uint_lt(n, 200);
                strata_region_config config = config_of(16 * MIB, 4 * MIB);
                config.pages = (strata_pages)pages;
                config.prefault = true;
                config.prefault_threads = 2;
                fake_system_fail(&fake, FAKE_ANY, n, false, errors[e]);
                strata_region *region = NULL;
                strata_error why = {.status = STRATA_OK};
                strata_status status = strata_region_create(&region, &host.backend, &ledger,
                                                            &memory.memory, &config, &why);
                if (status == STRATA_OK) {
                    (void)strata_region_commit(region, 8 * MIB, &why);
                    ck_assert_uint_eq(counts().committed_bytes, strata_region_committed(region));
                    memset(strata_region_base(region), 1, strata_region_committed(region));
                    if (strata_region_release(region, NULL, &why) != STRATA_OK) {
                        /* It was the unmap: held as before, and the next release succeeds. */
                        ck_assert_uint_eq(counts().committed_bytes,
                                          strata_region_committed(region));
                        memset(strata_region_base(region), 2, strata_region_committed(region));
                        assert_ok(strata_region_release(region, NULL, &error), error);
                    }
                    strata_region_destroy(region);
                } else {
                    ck_assert_ptr_null(region);
                    ck_assert_int_eq(why.status, status);
                    ck_assert_uint_gt(strlen(why.text), 0);
                }
                injected = fake_system_injected(&fake);
                fake_system_heal(&fake);
                assert_all_returned();
            }
        }
    }
}
END_TEST

START_TEST(control_memory_fails_and_nothing_is_left)
{
    strata_region_config config = config_of(MIB, MIB);
    strata_region *region = NULL;
    fake_memory_fail(&memory, 1, false);
    assert_status(
        strata_region_create(&region, &host.backend, &ledger, &memory.memory, &config, &error),
        STRATA_NO_MEMORY);
    assert_all_returned();
}
END_TEST

START_TEST(sizes_that_are_zero_wrap_or_contradict_are_refused)
{
    static const struct {
        size_t reserve;
        size_t first;
    } bad[] = {{0, 0},         {SIZE_MAX, 0},   {SIZE_MAX - 4096, 0}, {SIZE_MAX / 2, 0},
               {MIB, 3 * MIB}, {MIB, SIZE_MAX}, {(size_t)1 << 63, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        strata_region_config config = config_of(bad[i].reserve, bad[i].first);
        strata_region *region = NULL;
        assert_status(
            strata_region_create(&region, &host.backend, &ledger, &memory.memory, &config, &error),
            STRATA_INVALID);
        ck_assert_ptr_null(region);
        assert_all_returned();
    }
}
END_TEST

static size_t count_maps(const void *base, size_t bytes)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(maps);
    size_t count = 0;
    unsigned long from = 0;
    unsigned long to = 0;
    char line[512];
    while (fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && to > (uintptr_t)base &&
            from < (uintptr_t)base + bytes) {
            count++;
        }
    }
    (void)fclose(maps);
    return count;
}

START_TEST(many_commits_keep_two_mappings_and_go_by_one_unmap)
{
    for (int pages = STRATA_PAGES_DEFAULT; pages <= STRATA_PAGES_THP; pages++) {
        strata_region_config config = config_of(256 * MIB, 2 * MIB);
        config.pages = (strata_pages)pages;
        config.step_bytes = MIB;
        config.step_max_bytes = MIB;
        strata_region *region = create(&config);
        for (size_t at = 2 * MIB; at <= 128 * MIB; at += 2 * MIB) {
            assert_ok(strata_region_commit(region, at, &error), error);
        }
        strata_region_info info;
        strata_region_read(region, &info);
        ck_assert_uint_eq(info.extents, 64);
        ck_assert_uint_le(count_maps(info.base, info.reserve_bytes), 2);
        uint64_t unmaps = fake_system_calls(&fake, FAKE_UNMAP);
        end(region);
        ck_assert_uint_eq(fake_system_calls(&fake, FAKE_UNMAP), unmaps + 1);
        assert_all_returned();
    }
    ck_assert_uint_eq(fake.partial_unmaps, 0);
}
END_TEST

START_TEST(steps_grow_up_to_their_cap_and_never_past_the_reservation)
{
    strata_region_config config = config_of(64 * MIB, 0);
    config.step_bytes = 2 * MIB;
    config.step_max_bytes = 8 * MIB;
    strata_region *region = create(&config);
    static const size_t expected[] = {2, 6, 14, 22, 30, 38, 46, 54, 62, 64};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_ok(strata_region_commit(region, strata_region_committed(region) + 1, &error), error);
        ck_assert_uint_eq(strata_region_committed(region), expected[i] * MIB);
    }
    assert_status(strata_region_commit(region, 64 * MIB + 1, &error), STRATA_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "weights.reserve"));
    assert_status(strata_region_commit(region, SIZE_MAX, &error), STRATA_LIMIT);
    end(region);
}
END_TEST

START_TEST(a_step_over_the_budget_is_tried_again_with_what_is_needed)
{
    strata_ledger_init(&ledger, NULL, "test", 5 * MIB);
    strata_region_config config = config_of(64 * MIB, 0);
    config.pages = STRATA_PAGES_DEFAULT;
    config.step_bytes = 16 * MIB;
    config.step_max_bytes = 16 * MIB;
    strata_region *region = create(&config);
    assert_ok(strata_region_commit(region, 3 * MIB, &error), error);
    ck_assert_uint_eq(strata_region_committed(region), 3 * MIB);
    uint64_t protects = fake_system_calls(&fake, FAKE_PROTECT);
    assert_status(strata_region_commit(region, 6 * MIB, &error), STRATA_BUDGET);
    /* The budget is asked before the system is. */
    ck_assert_uint_eq(fake_system_calls(&fake, FAKE_PROTECT), protects);
    ck_assert_uint_eq(counts().committed_bytes, 3 * MIB);
    end(region);
    assert_all_returned();
}
END_TEST

START_TEST(releasing_again_makes_no_call_and_figures_stay_readable)
{
    strata_region_config config = config_of(4 * MIB, 4 * MIB);
    strata_region *region = create(&config);
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    assert_ok(strata_region_release(region, &report, &error), error);
    ck_assert_int_eq(report.verdict, STRATA_VERDICT_VERIFIED);
    uint64_t calls = fake_system_calls(&fake, FAKE_ANY);
    assert_ok(strata_region_release(region, &report, &error), error);
    ck_assert_uint_eq(fake_system_calls(&fake, FAKE_ANY), calls);
    assert_status(strata_region_commit(region, 8 * MIB, &error), STRATA_CLOSED);
    assert_status(strata_region_commit(region, 1, &error), STRATA_CLOSED);
    assert_status(strata_region_trim(region, 0, &error), STRATA_CLOSED);
    strata_region_info info;
    strata_region_read(region, &info);
    ck_assert(info.released);
    ck_assert_uint_eq(info.committed_bytes, 0);
    ck_assert_uint_eq(info.committed_peak_bytes, 4 * MIB);
    strata_region_destroy(region);
    assert_all_returned();
}
END_TEST

START_TEST(trim_gives_memory_back_and_growth_takes_it_again_as_zeros)
{
    strata_region_config config = config_of(32 * MIB, 16 * MIB);
    strata_region *region = create(&config);
    unsigned char *base = strata_region_base(region);
    memset(base, 7, 16 * MIB);
    assert_ok(strata_region_trim(region, 3 * MIB, &error), error);
    ck_assert_uint_eq(strata_region_committed(region), 4 * MIB); /* rounded up to huge pages */
    ck_assert_uint_eq(counts().committed_bytes, 4 * MIB);
    unsigned char resident[4096];
    ck_assert_int_eq(mincore(base + 4 * MIB, 12 * MIB, resident), 0);
    for (size_t i = 0; i < 12 * MIB / 4096; i++) {
        ck_assert_int_eq(resident[i] & 1, 0);
    }
    ck_assert_int_eq(base[4 * MIB - 1], 7);
    assert_ok(strata_region_commit(region, 6 * MIB, &error), error);
    ck_assert_int_eq(base[4 * MIB], 0);
    /* A trim that the system refuses changes nothing. */
    size_t committed = strata_region_committed(region);
    for (uint64_t n = 1; n <= 2; n++) {
        fake_system_fail(&fake, FAKE_ANY, n, false, EINVAL);
        assert_status(strata_region_trim(region, 0, &error), STRATA_SYSTEM);
        ck_assert_uint_eq(strata_region_committed(region), committed);
        ck_assert_uint_eq(counts().committed_bytes, committed);
        base[committed - 1] = 1;
    }
    fake_system_heal(&fake);
    assert_ok(strata_region_trim(region, SIZE_MAX, &error), error);
    end(region);
    assert_all_returned();
}
END_TEST

/* --- verdicts ----------------------------------------------------------------------------------*/

static int lying_unmap(void *user, void *base, size_t bytes)
{
    (void)user;
    (void)base;
    (void)bytes;
    return 0;
}

static int refusing_unmap(void *user, void *base, size_t bytes)
{
    (void)user;
    (void)base;
    (void)bytes;
    errno = ENOMEM;
    return -1;
}

static int blind_resident(void *user, void *base, size_t bytes, unsigned char *pages)
{
    (void)user;
    (void)base;
    (void)bytes;
    (void)pages;
    errno = EAGAIN;
    return -1;
}

START_TEST(an_unmap_that_lies_is_short_and_one_that_cannot_be_seen_says_why)
{
    strata_region_config config = config_of(8 * MIB, 8 * MIB);
    config.prefault = true;
    strata_region *region = create(&config);
    char *base = strata_region_base(region);
    strata_report report;
    host.system_.unmap = lying_unmap;
    strata_report_init(&report, NULL, NULL);
    assert_ok(strata_region_release(region, &report, &error), error);
    ck_assert_int_eq(report.verdict, STRATA_VERDICT_SHORT);
    ck_assert_uint_eq(report.short_bytes, 8 * MIB);
    strata_region_destroy(region);
    base[0] = 1; /* really still there */

    strata_host_backend_init(&host, &gate, &fake.system);
    host.system_.resident = blind_resident;
    region = create(&config);
    strata_report_init(&report, NULL, NULL);
    assert_ok(strata_region_release(region, &report, &error), error);
    ck_assert_int_eq(report.verdict, STRATA_VERDICT_UNVERIFIABLE);
    ck_assert_ptr_nonnull(strstr(report.verdict_reason, "mincore"));
    strata_region_destroy(region);
}
END_TEST

static int unmap_and_take(void *user, void *base, size_t bytes)
{
    (void)user;
    int rc = munmap(base, bytes);
    /* Another thread is quicker than the check. */
    void *taken =
        mmap(base, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ck_assert_ptr_eq(taken, base);
    return rc;
}

START_TEST(addresses_taken_by_another_meanwhile_are_unverifiable)
{
    strata_region_config config = config_of(8 * MIB, 8 * MIB);
    strata_region *region = create(&config);
    host.system_.unmap = unmap_and_take;
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    assert_ok(strata_region_release(region, &report, &error), error);
    ck_assert_int_eq(report.verdict, STRATA_VERDICT_UNVERIFIABLE);
    strata_region_destroy(region);
}
END_TEST

/* --- limits, pages, gate, fork -----------------------------------------------------------------*/

START_TEST(an_address_limit_is_named_with_its_remedy)
{
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit limit = {.rlim_cur = 512 * MIB, .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    strata_region_config config = config_of((size_t)64 << 30, 0);
    strata_region *region = NULL;
    assert_status(
        strata_region_create(&region, &host.backend, &ledger, &memory.memory, &config, &error),
        STRATA_LIMIT);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
    ck_assert_ptr_nonnull(strstr(error.text, "RLIMIT_AS"));
    ck_assert_ptr_nonnull(strstr(error.text, "reserve"));
    assert_all_returned();
}
END_TEST

START_TEST(a_refused_commit_names_the_limit_or_where_to_look)
{
    strata_region_config config = config_of(64 * MIB, 2 * MIB);
    strata_region *region = create(&config);
    fake_system_fail(&fake, FAKE_PROTECT, 1, true, ENOMEM); /* overcommit 2 */
    assert_status(strata_region_commit(region, 4 * MIB, &error), STRATA_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(error.text, "vm.overcommit_memory"));
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_DATA, &before), 0);
    struct rlimit limit = {.rlim_cur = 64 * MIB, .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_DATA, &limit), 0);
    strata_status status = strata_region_commit(region, 4 * MIB, &error);
    ck_assert_int_eq(setrlimit(RLIMIT_DATA, &before), 0);
    ck_assert_int_eq(status, STRATA_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "RLIMIT_DATA is 67108864 bytes"));
    fake_system_heal(&fake);
    end(region);
    assert_all_returned();
}
END_TEST

START_TEST(addresses_that_cannot_be_returned_after_a_failure_are_said)
{
    strata_region_config config = config_of(8 * MIB, 0);
    config.pages_fallback = false;
    strata_region *region = NULL;
    fake_system_fail(&fake, FAKE_ADVISE, 1, false, EINVAL);
    host.system_.unmap = refusing_unmap;
    assert_status(
        strata_region_create(&region, &host.backend, &ledger, &memory.memory, &config, &error),
        STRATA_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "could not be returned"));
}
END_TEST

START_TEST(an_empty_huge_page_pool_is_an_error_or_falls_back_as_configured)
{
    strata_region_config config = config_of(64 * MIB, 4 * MIB);
    config.pages = STRATA_PAGES_HUGETLB;
    config.pages_fallback = false;
    strata_region *region = NULL;
    fake_system_fail(&fake, FAKE_MAP, 2, false, ENOMEM); /* the pool, whatever this machine has */
    assert_status(
        strata_region_create(&region, &host.backend, &ledger, &memory.memory, &config, &error),
        STRATA_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(error.text, "pages_fallback"));
    assert_all_returned();
    config.pages_fallback = true;
    config.first_bytes = 4 * MIB;
    fake_system_fail(&fake, FAKE_MAP, 2, false, ENOMEM); /* the pool, whether there is one or not */
    region = create(&config);
    strata_region_info info;
    strata_region_read(region, &info);
    ck_assert_int_eq(info.pages, STRATA_PAGES_THP);
    memset(info.base, 1, info.committed_bytes);
    end(region);
    assert_all_returned();
}
END_TEST

START_TEST(without_transparent_huge_pages_it_falls_back_or_says_so)
{
    strata_region_config config = config_of(8 * MIB, 0);
    fake_system_fail(&fake, FAKE_ADVISE, 1, false, EINVAL);
    strata_region *region = create(&config);
    strata_region_info info;
    strata_region_read(region, &info);
    ck_assert_int_eq(info.pages, STRATA_PAGES_DEFAULT);
    end(region);
    config.pages_fallback = false;
    region = NULL;
    fake_system_fail(&fake, FAKE_ADVISE, 1, false, EINVAL);
    assert_status(
        strata_region_create(&region, &host.backend, &ledger, &memory.memory, &config, &error),
        STRATA_UNSUPPORTED);
    assert_all_returned();
}
END_TEST

static void *hold_the_gate(void *argument)
{
    int *state = argument;
    strata_pass pass;
    (void)strata_gate_close(&gate, &pass, "a neighbour's release", STRATA_DEADLINE_NEVER, NULL);
    __atomic_store_n(state, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(state, __ATOMIC_ACQUIRE) != 2) {
        usleep(100);
    }
    strata_gate_open(&gate, &pass);
    return NULL;
}

START_TEST(growth_and_return_wait_at_the_gate_and_not_for_ever)
{
    strata_region_config config = config_of(32 * MIB, 2 * MIB);
    strata_region *region = create(&config);
    host.backend.gate_wait_ns = 5000000;
    int state = 0;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, hold_the_gate, &state), 0);
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 1) {
        usleep(100);
    }
    uint64_t calls = fake_system_calls(&fake, FAKE_ANY);
    assert_status(strata_region_commit(region, 4 * MIB, &error), STRATA_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(error.text, "a neighbour's release"));
    assert_status(strata_region_release(region, NULL, &error), STRATA_TIMEOUT);
    assert_status(strata_region_trim(region, 0, &error), STRATA_TIMEOUT);
    assert_ok(strata_region_commit(region, 2 * MIB, &error), error); /* nothing to ask for */
    ck_assert_uint_eq(fake_system_calls(&fake, FAKE_ANY), calls);
    __atomic_store_n(&state, 2, __ATOMIC_RELEASE);
    (void)pthread_join(thread, NULL);
    end(region);
    assert_all_returned();
}
END_TEST

START_TEST(a_forked_child_uses_what_it_has_and_is_refused_the_rest)
{
    strata_region_config config = config_of(32 * MIB, 2 * MIB);
    strata_region *region = create(&config);
    unsigned char *base = strata_region_base(region);
    base[0] = 5;
    pid_t child = fork();
    if (child == 0) {
        /* The gate may be held by a thread that does not exist here: nothing may wait for it. */
        strata_region *second = NULL;
        bool good = base[0] == 5;
        base[0] = 6;
        good = good && strata_region_commit(region, 4 * MIB, &error) == STRATA_UNSUPPORTED;
        good = good && strata_region_release(region, NULL, &error) == STRATA_UNSUPPORTED;
        good = good && strata_region_trim(region, 0, &error) == STRATA_UNSUPPORTED;
        good = good && strata_region_create(&second, &host.backend, &ledger, NULL, &config,
                                            &error) == STRATA_UNSUPPORTED;
        _exit(good ? 0 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(base[0], 5);
    end(region);
    assert_all_returned();
}
END_TEST

START_TEST(a_backend_of_another_version_is_refused)
{
    strata_backend_ops old = *host.backend.ops;
    old.version = STRATA_BACKEND_VERSION + 1;
    host.backend.ops = &old;
    strata_region_config config = config_of(MIB, 0);
    strata_region *region = NULL;
    assert_status(strata_region_create(&region, &host.backend, &ledger, NULL, &config, &error),
                  STRATA_UNSUPPORTED);
    ck_assert_uint_eq(fake_system_calls(&fake, FAKE_ANY), 0);
}
END_TEST

/* --- files -------------------------------------------------------------------------------------*/

START_TEST(a_file_is_mapped_whole_and_returned_whole)
{
    char path[] = "/tmp/strata-region-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    (void)unlink(path);
    strata_file_backend file;
    assert_status(strata_file_backend_init(&file, fd, &gate, &fake.system, &error), STRATA_INVALID);
    ck_assert_int_eq((int)write(fd, "strata", 6), 6);
    assert_ok(strata_file_backend_init(&file, fd, &gate, &fake.system, &error), error);
    strata_region_config config = config_of(6, 0);
    config.pages = STRATA_PAGES_DEFAULT;
    config.prefault = true;
    strata_region *region = NULL;
    assert_ok(
        strata_region_create(&region, &file.backend, &ledger, &memory.memory, &config, &error),
        error);
    (void)close(fd);
    ck_assert_int_eq(memcmp(strata_region_base(region), "strata", 6), 0);
    ck_assert_uint_eq(strata_region_committed(region), 4096);
    assert_status(strata_region_commit(region, 8192, &error), STRATA_LIMIT);
    assert_status(strata_region_trim(region, 0, &error), STRATA_UNSUPPORTED);
    strata_report report;
    strata_report_init(&report, NULL, NULL);
    assert_ok(strata_region_release(region, &report, &error), error);
    ck_assert_int_eq(report.verdict, STRATA_VERDICT_VERIFIED);
    strata_region_destroy(region);
    assert_all_returned();
    config.pages = STRATA_PAGES_HUGETLB;
    config.pages_fallback = false;
    region = NULL;
    assert_status(strata_region_create(&region, &file.backend, &ledger, NULL, &config, &error),
                  STRATA_UNSUPPORTED);
    config.pages_fallback = true;
    config.reserve_bytes = 5 * MIB; /* not the file's size */
    region = NULL;
    assert_status(strata_region_create(&region, &file.backend, &ledger, NULL, &config, &error),
                  STRATA_INVALID);
    assert_status(strata_file_backend_init(&file, -1, &gate, NULL, &error), STRATA_SYSTEM);
    int folder = open("/tmp", O_RDONLY);
    assert_status(strata_file_backend_init(&file, folder, &gate, NULL, &error), STRATA_INVALID);
    (void)close(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("region");
    TCase *tests = add_case(suite, "region");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, every_call_fails_in_turn_and_nothing_is_left);
    tcase_add_test(tests, control_memory_fails_and_nothing_is_left);
    tcase_add_test(tests, sizes_that_are_zero_wrap_or_contradict_are_refused);
    tcase_add_test(tests, many_commits_keep_two_mappings_and_go_by_one_unmap);
    tcase_add_test(tests, steps_grow_up_to_their_cap_and_never_past_the_reservation);
    tcase_add_test(tests, a_step_over_the_budget_is_tried_again_with_what_is_needed);
    tcase_add_test(tests, releasing_again_makes_no_call_and_figures_stay_readable);
    tcase_add_test(tests, trim_gives_memory_back_and_growth_takes_it_again_as_zeros);
    tcase_add_test(tests, an_unmap_that_lies_is_short_and_one_that_cannot_be_seen_says_why);
    tcase_add_test(tests, addresses_taken_by_another_meanwhile_are_unverifiable);
    tcase_add_test(tests, a_refused_commit_names_the_limit_or_where_to_look);
    tcase_add_test(tests, addresses_that_cannot_be_returned_after_a_failure_are_said);
    tcase_add_test(tests, an_empty_huge_page_pool_is_an_error_or_falls_back_as_configured);
    tcase_add_test(tests, without_transparent_huge_pages_it_falls_back_or_says_so);
    tcase_add_test(tests, growth_and_return_wait_at_the_gate_and_not_for_ever);
    tcase_add_test(tests, a_forked_child_uses_what_it_has_and_is_refused_the_rest);
    tcase_add_test(tests, a_backend_of_another_version_is_refused);
    tcase_add_test(tests, a_file_is_mapped_whole_and_returned_whole);
    tcase_add_test(tests, an_address_limit_is_named_with_its_remedy);
    return run_suite(suite);
}
