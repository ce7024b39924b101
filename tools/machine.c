/* machine.c - /proc, /sys and the scheduler. See machine.h. */
#include "machine.h"

#include <strata/gate.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const machine_count unknown;

static machine_count known(uint64_t value)
{
    return (machine_count){.known = true, .value = value};
}

/* --- lines of /proc ----------------------------------------------------------------------------*/

/* The rest of the first line that begins with `key` (leading blanks do not count), to be freed;
 * NULL where there is none. */
static char *find_line(const char *path, const char *key)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return NULL;
    }
    char *line = NULL;
    size_t capacity = 0;
    char *found = NULL;
    while (found == NULL && getline(&line, &capacity, file) >= 0) {
        const char *start = line + strspn(line, " \t");
        if (strncmp(start, key, strlen(key)) == 0) {
            found = strdup(start + strlen(key));
        }
    }
    free(line);
    (void)fclose(file);
    return found;
}

machine_count machine_tlb_shootdowns(void)
{
    char *row = find_line("/proc/interrupts", "TLB:");
    if (row == NULL) {
        return unknown;
    }
    uint64_t sum = 0;
    bool any = false;
    for (char *at = row;;) {
        char *end;
        unsigned long long value = strtoull(at, &end, 10);
        if (end == at) {
            break;
        }
        sum += value;
        any = true;
        at = end;
    }
    free(row);
    return any ? known(sum) : unknown;
}

machine_count machine_difference(machine_count before, machine_count after)
{
    if (!before.known || !after.known || after.value < before.value) {
        return unknown;
    }
    return known(after.value - before.value);
}

machine_count machine_without(machine_count whole, machine_count background)
{
    if (!whole.known || !background.known) {
        return unknown;
    }
    return known(whole.value > background.value ? whole.value - background.value : 0);
}

machine_count machine_resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) {
        return unknown;
    }
    unsigned long long size;
    unsigned long long resident;
    int got = fscanf(file, "%llu %llu", &size, &resident); /* NOLINT(cert-err34-c) */
    (void)fclose(file);
    return got == 2 ? known(resident * (uint64_t)sysconf(_SC_PAGESIZE)) : unknown;
}

/* A "Key:   123 kB" line. */
static machine_count kilobytes(const char *path, const char *key)
{
    char *row = find_line(path, key);
    if (row == NULL) {
        return unknown;
    }
    char *end;
    unsigned long long value = strtoull(row, &end, 10);
    bool any = end != row;
    free(row);
    return any ? known(value * 1024U) : unknown;
}

bool machine_resident_peak_reset(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool done = write(fd, "5", 1) == 1; /* proc(5): resets the peak resident set */
    (void)close(fd);
    return done;
}

machine_count machine_resident_peak_bytes(void)
{
    return kilobytes("/proc/self/status", "VmHWM:");
}

machine_count machine_memory_bytes(void)
{
    return kilobytes("/proc/meminfo", "MemTotal:");
}

machine_count machine_memory_available_bytes(void)
{
    return kilobytes("/proc/meminfo", "MemAvailable:");
}

/* --- names -------------------------------------------------------------------------------------*/

bool machine_processor(char name[MACHINE_TEXT_MAX])
{
    char *row = find_line("/proc/cpuinfo", "model name");
    if (row == NULL) {
        return false;
    }
    char *start = row + strspn(row, " \t:");
    start[strcspn(start, "\n")] = '\0';
    (void)snprintf(name, MACHINE_TEXT_MAX, "%s", start);
    free(row);
    return true;
}

/* The word between brackets, as in "always [madvise] never". */
bool machine_huge_pages(char word[MACHINE_TEXT_MAX])
{
    char *row = find_line("/sys/kernel/mm/transparent_hugepage/enabled", "");
    char *start = row == NULL ? NULL : strchr(row, '[');
    char *end = start == NULL ? NULL : strchr(start, ']');
    if (end != NULL) {
        (void)snprintf(word, MACHINE_TEXT_MAX, "%.*s", (int)(end - start) - 1, start + 1);
    }
    free(row);
    return end != NULL;
}

/* --- cores -------------------------------------------------------------------------------------*/

size_t machine_cores(int *cores, size_t capacity)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return 0;
    }
    size_t count = 0;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET((size_t)core, &allowed)) {
            if (count < capacity) {
                cores[count] = core;
            }
            count++;
        }
    }
    return count;
}

bool machine_pin(int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

static void *run_beside(void *user)
{
    machine_neighbour *neighbour = user;
    bool pinned = machine_pin(neighbour->core_);
    __atomic_store_n(&neighbour->running_, pinned ? 1U : 2U, __ATOMIC_RELEASE);
    while (pinned && __atomic_load_n(&neighbour->stop_, __ATOMIC_RELAXED) == 0) {
        /* Never sleeps: a core that has gone idle is not interrupted. */
    }
    return NULL;
}

bool machine_neighbour_start(machine_neighbour *neighbour)
{
    int cores[2];
    *neighbour = (machine_neighbour){0};
    if (machine_cores(cores, 2) < 2 ||
        sched_getaffinity(0, sizeof neighbour->callers_, &neighbour->callers_) != 0) {
        return false;
    }
    neighbour->core_ = cores[1];
    if (pthread_create(&neighbour->thread_, NULL, run_beside, neighbour) != 0) {
        return false;
    }
    neighbour->started_ = true;
    uint32_t running;
    while ((running = __atomic_load_n(&neighbour->running_, __ATOMIC_ACQUIRE)) == 0) {
        (void)sched_yield();
    }
    return running == 1 && machine_pin(cores[0]);
}

void machine_neighbour_stop(machine_neighbour *neighbour)
{
    if (!neighbour->started_) {
        return;
    }
    __atomic_store_n(&neighbour->stop_, 1U, __ATOMIC_RELAXED);
    (void)pthread_join(neighbour->thread_, NULL);
    (void)sched_setaffinity(0, sizeof neighbour->callers_, &neighbour->callers_);
    neighbour->started_ = false;
}

/* --- a window ----------------------------------------------------------------------------------*/

#define CONTROL_NS_LEAST UINT64_C(1000000)
#define CONTROL_NS_MOST  UINT64_C(100000000)

void machine_window_begin(machine_window *window)
{
    window->before_ = machine_tlb_shootdowns();
    window->began_ns_ = strata_now_ns();
}

/* What the machine does in `ns` when we do nothing; scaled where a shorter window was watched. */
static machine_count background(uint64_t ns)
{
    uint64_t watched = ns < CONTROL_NS_LEAST ? CONTROL_NS_LEAST : ns;
    watched = watched > CONTROL_NS_MOST ? CONTROL_NS_MOST : watched;
    machine_count before = machine_tlb_shootdowns();
    uint64_t until = strata_deadline_in(watched);
    while (strata_now_ns() < until) {
        /* Idle without sleeping: a core that sleeps is not interrupted. */
    }
    machine_count seen = machine_difference(before, machine_tlb_shootdowns());
    seen.value = (uint64_t)((double)seen.value * (double)ns / (double)watched);
    return seen;
}

machine_cost machine_window_end(const machine_window *window)
{
    machine_cost cost = {.elapsed_ns = strata_now_ns() - window->began_ns_};
    machine_count whole = machine_difference(window->before_, machine_tlb_shootdowns());
    cost.tlb_shootdowns = machine_without(whole, background(cost.elapsed_ns));
    return cost;
}
