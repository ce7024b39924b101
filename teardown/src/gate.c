/* gate.c - one mutex, one condition, a list of who is inside.
 *
 * The rules, small enough to be checked as a model:
 *   enter waits while a closer is in or waiting; close waits while anybody is in;
 *   a thread that is inside is answered ORDER, never made to wait for itself;
 *   every wait ends at its deadline, and a closer that gives up lets the traffic in again.
 *
 * A list instead of a counter costs a few stores under the mutex and buys two things: reentry is
 * recognised without thread-local state, and a timeout can name who it waited for. */
#include <strata/gate.h>

#include <errno.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

uint64_t strata_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t strata_deadline_in(uint64_t ns)
{
    uint64_t now = strata_now_ns();
    return ns > UINT64_MAX - now ? STRATA_DEADLINE_NEVER : now + ns;
}

strata_status strata_gate_init(strata_gate *gate, strata_error *err)
{
    pthread_condattr_t attributes;
    int rc = pthread_condattr_init(&attributes);
    if (rc != 0) {
        return strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, rc,
                                   "pthread_condattr_init");
    }
    *gate = (strata_gate){.inside_ = NULL};
    rc = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (rc == 0) {
        rc = pthread_cond_init(&gate->changed_, &attributes);
    }
    (void)pthread_condattr_destroy(&attributes);
    if (rc != 0) {
        return strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, rc,
                                   "pthread_cond_init");
    }
    rc = pthread_mutex_init(&gate->mutex_, NULL);
    if (rc != 0) {
        (void)pthread_cond_destroy(&gate->changed_);
        return strata_error_native(err, STRATA_SYSTEM, STRATA_ORIGIN_ERRNO, rc,
                                   "pthread_mutex_init");
    }
    return STRATA_OK;
}

void strata_gate_fini(strata_gate *gate)
{
    (void)pthread_cond_destroy(&gate->changed_);
    (void)pthread_mutex_destroy(&gate->mutex_);
}

static void pass_begin(strata_pass *pass, const char *doing)
{
    *pass = (strata_pass){.thread_ = pthread_self(), .doing_ = doing, .since_ns_ = strata_now_ns()};
}

static bool is_closer(const strata_gate *gate)
{
    return gate->closer_ != NULL && pthread_equal(gate->closer_->thread_, pthread_self());
}

static bool is_inside(const strata_gate *gate)
{
    pthread_t self = pthread_self();
    if (is_closer(gate)) {
        return true;
    }
    for (const strata_pass *pass = gate->inside_; pass != NULL; pass = pass->next_) {
        if (pthread_equal(pass->thread_, self)) {
            return true;
        }
    }
    return false;
}

static strata_status order(strata_error *err, const char *doing)
{
    return strata_error_set(err, STRATA_ORDER,
                            "%s: this thread is inside the gate already; leave it first", doing);
}

/* What the caller would have waited for: the closer, or whoever has been inside longest. */
static strata_status not_let_in(const strata_gate *gate, const char *doing, strata_status status,
                                strata_error *err)
{
    const strata_pass *holder = gate->closer_;
    for (const strata_pass *pass = gate->inside_; pass != NULL; pass = pass->next_) {
        if (holder == NULL || pass->since_ns_ < holder->since_ns_) {
            holder = pass;
        }
    }
    if (holder == NULL) {
        return strata_error_set(err, status, "%s: a closer waits at the gate", doing);
    }
    uint64_t age_ms = (strata_now_ns() - holder->since_ns_) / 1000000;
    return strata_error_set(err, status, "%s: the gate is held by \"%s\" for %llu ms", doing,
                            holder->doing_, (unsigned long long)age_ms);
}

/* Waits for a change; false once the deadline has passed. */
static bool wait_for_change(strata_gate *gate, uint64_t deadline_ns)
{
    if (deadline_ns == STRATA_DEADLINE_NEVER) {
        return pthread_cond_wait(&gate->changed_, &gate->mutex_) == 0;
    }
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                             .tv_nsec = (long)(deadline_ns % NS_PER_S)};
    return pthread_cond_timedwait(&gate->changed_, &gate->mutex_, &until) != ETIMEDOUT;
}

static strata_status given_up(uint64_t deadline_ns)
{
    return deadline_ns == STRATA_DEADLINE_NOW ? STRATA_BUSY : STRATA_TIMEOUT;
}

static bool traffic_may_enter(const strata_gate *gate)
{
    return gate->closer_ == NULL && gate->closers_waiting_ == 0;
}

static bool closer_may_enter(const strata_gate *gate)
{
    return gate->closer_ == NULL && gate->inside_ == NULL;
}

/* The answer is asked once more after a timeout: the change may have come with it. */
static bool wait_until(strata_gate *gate, bool (*may_enter)(const strata_gate *),
                       uint64_t deadline_ns)
{
    bool in_time = deadline_ns != STRATA_DEADLINE_NOW;
    while (!may_enter(gate) && in_time) {
        in_time = wait_for_change(gate, deadline_ns);
    }
    return may_enter(gate);
}

strata_status strata_gate_enter(strata_gate *gate, strata_pass *pass, const char *doing,
                                uint64_t deadline_ns, strata_error *err)
{
    strata_status status = STRATA_OK;
    (void)pthread_mutex_lock(&gate->mutex_);
    if (is_inside(gate)) {
        status = order(err, doing);
    } else if (!wait_until(gate, traffic_may_enter, deadline_ns)) {
        status = not_let_in(gate, doing, given_up(deadline_ns), err);
    } else {
        pass_begin(pass, doing);
        pass->next_ = gate->inside_;
        if (gate->inside_ != NULL) {
            gate->inside_->previous_ = pass;
        }
        gate->inside_ = pass;
    }
    (void)pthread_mutex_unlock(&gate->mutex_);
    return status;
}

void strata_gate_leave(strata_gate *gate, strata_pass *pass)
{
    (void)pthread_mutex_lock(&gate->mutex_);
    if (pass->previous_ != NULL) {
        pass->previous_->next_ = pass->next_;
    } else {
        gate->inside_ = pass->next_;
    }
    if (pass->next_ != NULL) {
        pass->next_->previous_ = pass->previous_;
    }
    (void)pthread_cond_broadcast(&gate->changed_);
    (void)pthread_mutex_unlock(&gate->mutex_);
}

strata_status strata_gate_close(strata_gate *gate, strata_pass *pass, const char *doing,
                                uint64_t deadline_ns, strata_error *err)
{
    strata_status status = STRATA_OK;
    (void)pthread_mutex_lock(&gate->mutex_);
    if (is_inside(gate)) {
        status = order(err, doing);
    } else {
        gate->closers_waiting_++;
        bool mine = wait_until(gate, closer_may_enter, deadline_ns);
        gate->closers_waiting_--;
        if (mine) {
            pass_begin(pass, doing);
            gate->closer_ = pass;
        } else {
            status = not_let_in(gate, doing, given_up(deadline_ns), err);
            /* Traffic that waited for this closer only may go on. */
            (void)pthread_cond_broadcast(&gate->changed_);
        }
    }
    (void)pthread_mutex_unlock(&gate->mutex_);
    return status;
}

void strata_gate_open(strata_gate *gate, strata_pass *pass)
{
    (void)pthread_mutex_lock(&gate->mutex_);
    if (gate->closer_ == pass) {
        gate->closer_ = NULL;
    }
    (void)pthread_cond_broadcast(&gate->changed_);
    (void)pthread_mutex_unlock(&gate->mutex_);
}

bool strata_gate_is_closer(strata_gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex_);
    bool mine = is_closer(gate);
    (void)pthread_mutex_unlock(&gate->mutex_);
    return mine;
}
