/* backend.c - the parts of a backend that are the same for all of them: names, the head, the fork
 * rule. */
#include <strata/backend.h>

#include <unistd.h>

#define GATE_WAIT_DEFAULT_NS UINT64_C(5000000000)

const char *strata_pages_name(strata_pages pages)
{
    switch (pages) {
    case STRATA_PAGES_DEFAULT:
        return "default";
    case STRATA_PAGES_THP:
        return "thp";
    case STRATA_PAGES_HUGETLB:
        return "hugetlb";
    }
    return "unknown";
}

void strata_backend_init(strata_backend *backend, const strata_backend_ops *ops, strata_gate *gate)
{
    *backend = (strata_backend){
        .ops = ops, .gate = gate, .gate_wait_ns = GATE_WAIT_DEFAULT_NS, .owner_ = getpid()};
}

strata_status strata_backend_may_map(const strata_backend *backend, strata_error *err)
{
    if (getpid() == backend->owner_) {
        return STRATA_OK;
    }
    return strata_error_set(err, STRATA_UNSUPPORTED,
                            "this process was forked from the one that made the backend \"%s\"; "
                            "make a strata_process of its own here",
                            backend->ops->name);
}
