/* progress.c - the bar on stderr. See progress.h.
 *
 * One line that ends in a carriage return instead of a newline, so that the next one overwrites it.
 * Its width is fixed and below 80 columns: following the terminal's width would take a signal
 * handler, for a bar. */
#include "progress.h"

#include "text.h"

#include <strata/gate.h>
#include <strata/units.h>

#include <stdio.h>
#include <unistd.h>

#define BAR_WIDTH    24
#define REDRAW_NS    UINT64_C(100000000)
#define SECOND_NS    UINT64_C(1000000000)
#define WIPE_COLUMNS 79

static void amount(char *buffer, size_t capacity, const progress *bar, uint64_t value)
{
    char shown[STRATA_UNITS_TEXT_MAX];
    if (bar->unit_ == NULL) {
        (void)snprintf(buffer, capacity, "%s", strata_size_show(value, shown));
    } else {
        (void)snprintf(buffer, capacity, "%llu %s", (unsigned long long)value, bar->unit_);
    }
}

static double share_done(const progress *bar)
{
    if (bar->total_ == 0) {
        return 0.0;
    }
    double share = (double)bar->done_ / (double)bar->total_;
    return share > 1.0 ? 1.0 : share;
}

/* ", 3s left", empty where it cannot be said. */
static void time_left(char *buffer, size_t capacity, const progress *bar, double rate)
{
    buffer[0] = '\0';
    if (bar->total_ > bar->done_ && rate > 0.0) {
        double seconds = (double)(bar->total_ - bar->done_) / rate;
        (void)snprintf(buffer, capacity, ", %.0fs left", seconds);
    }
}

size_t progress_format(const progress *bar, uint64_t now_ns, char *buffer, size_t capacity)
{
    char strip[BAR_WIDTH + 1];
    size_t filled = (size_t)(share_done(bar) * BAR_WIDTH);
    for (size_t i = 0; i < BAR_WIDTH; i++) {
        strip[i] = i < filled ? '#' : '.';
    }
    strip[BAR_WIDTH] = '\0';

    uint64_t took_ns = now_ns > bar->began_ns_ ? now_ns - bar->began_ns_ : 0;
    double rate = took_ns == 0 ? 0.0 : (double)bar->done_ / ((double)took_ns / SECOND_NS);
    char done[48];
    char pace[48];
    char left[48];
    amount(done, sizeof done, bar, bar->done_);
    amount(pace, sizeof pace, bar, (uint64_t)rate);
    time_left(left, sizeof left, bar, rate);
    int length = snprintf(buffer, capacity, "%s [%s] %3.0f%% %s, %s/s%s", bar->label_, strip,
                          share_done(bar) * 100.0, done, pace, left);
    return length < 0 ? 0 : (size_t)length;
}

static void draw(progress *bar, uint64_t now_ns)
{
    char text[256];
    (void)progress_format(bar, now_ns, text, sizeof text);
    (void)fprintf(stderr, "\r%-*.*s", WIPE_COLUMNS, WIPE_COLUMNS, text);
    (void)fflush(stderr);
    bar->drawn_ns_ = now_ns;
}

void progress_begin(progress *bar, const char *label, const char *unit, uint64_t total)
{
    *bar = (progress){.unit_ = unit, .total_ = total, .began_ns_ = strata_now_ns()};
    (void)snprintf(bar->label_, sizeof bar->label_, "%.20s", label);
    text_make_plain(bar->label_);
    bar->shown_ = isatty(STDERR_FILENO) == 1;
    bar->drawn_ns_ = bar->began_ns_;
}

void progress_set(progress *bar, uint64_t done)
{
    bar->done_ = done;
    if (!bar->shown_) {
        return;
    }
    uint64_t now_ns = strata_now_ns();
    if (now_ns - bar->drawn_ns_ >= REDRAW_NS) {
        draw(bar, now_ns);
    }
}

void progress_add(progress *bar, uint64_t more)
{
    progress_set(bar, bar->done_ + more);
}

void progress_end(progress *bar)
{
    if (bar->shown_) {
        (void)fprintf(stderr, "\r%*s\r", WIPE_COLUMNS, "");
        (void)fflush(stderr);
    }
    bar->shown_ = false;
}
