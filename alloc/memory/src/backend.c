/* backend.c - the parts of a backend that are the same for all of them: names, the head, the fork
 * rule. */
#include <strata/backend.h>

#include <unistd.h>

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
        .ops = ops, .gate = gate, .gate_wait_ns = STRATA_GATE_WAIT_NS, .owner_ = getpid()};
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

strata_status strata_backend_check(const strata_backend *backend, strata_error *err)
{
    if (backend->ops->version == STRATA_BACKEND_VERSION) {
        return STRATA_OK;
    }
    return strata_error_set(err, STRATA_UNSUPPORTED,
                            "backend \"%s\" has table version %u, this library needs %u; build "
                            "both from one release",
                            backend->ops->name, (unsigned)backend->ops->version,
                            STRATA_BACKEND_VERSION);
}
