/* machine.h - what the machine says about itself and about this process.
 *
 * Reads /proc and /sys, which the library never does. A figure that this machine does not give is
 * unknown and stays so: nothing here guesses. Any thread. */
#ifndef STRATA_TOOL_MACHINE_H
#define STRATA_TOOL_MACHINE_H

#include <pthread.h>
#include <sched.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct machine_count {
    bool known;
    uint64_t value;
} machine_count;

/* The sum of the `TLB:` row of /proc/interrupts: translation shootdowns received by all cores since
 * boot. System-wide, and x86 only: elsewhere the hardware broadcasts, and there is no such row. */
machine_count machine_tlb_shootdowns(void);

/* after - before, unknown where one of them is. */
machine_count machine_difference(machine_count before, machine_count after);
/* What is left of `whole` without `background`, not below 0; unknown where one of them is. */
machine_count machine_without(machine_count whole, machine_count background);

machine_count machine_resident_bytes(void); /* of this process, from /proc/self/statm */

/* The largest resident set since the last reset (or since the start, where resetting is refused:
 * then reset answers false). */
bool machine_resident_peak_reset(void);
machine_count machine_resident_peak_bytes(void);

machine_count machine_memory_bytes(void);           /* what is installed */
machine_count machine_memory_available_bytes(void); /* MemAvailable */

/* What the processor calls itself, and the chosen mode of transparent huge pages ("madvise"), cut
 * to the buffer. False, with nothing written: the machine does not say. */
#define MACHINE_TEXT_MAX 128
bool machine_processor(char name[MACHINE_TEXT_MAX]);
bool machine_huge_pages(char word[MACHINE_TEXT_MAX]);

/* Sorted numbers of the cores that this process may run on; fills at most `capacity`, returns how
 * many there are. */
size_t machine_cores(int *cores, size_t capacity);
/* Keeps the calling thread on one core. False where that is refused. */
bool machine_pin(int core);

/* Another thread of this process that runs without a pause on a core of its own: without one there
 * is nobody to interrupt, and every way of returning memory looks free of shootdowns. */
typedef struct machine_neighbour {
    pthread_t thread_;
    cpu_set_t callers_; /* where the caller might run before */
    int core_;
    uint32_t running_;
    uint32_t stop_;
    bool started_;
} machine_neighbour;

/* Pins the calling thread to the first core and the neighbour to the second, and returns when the
 * neighbour runs. False: there is only one core, or no thread; then shootdowns say nothing. */
bool machine_neighbour_start(machine_neighbour *neighbour);
/* Lets the calling thread run where it might before. Also after a start that failed. */
void machine_neighbour_stop(machine_neighbour *neighbour);

/* --- a window --------------------------------------------------------------------------------- */

/* Time and shootdowns of what lies between begin and end. */
typedef struct machine_window {
    machine_count before_;
    uint64_t began_ns_;
} machine_window;

typedef struct machine_cost {
    uint64_t elapsed_ns;
    machine_count tlb_shootdowns; /* without those of a quiet window of the same length */
} machine_cost;

void machine_window_begin(machine_window *window);
/* Then idles, without sleeping, as long as the window was, to learn what the rest of the machine
 * does meanwhile: 1 ms at least, 100 ms at most, and in proportion. */
machine_cost machine_window_end(const machine_window *window);

#endif
