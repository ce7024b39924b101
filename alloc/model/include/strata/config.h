/* strata/config.h - the configuration of one model load.
 *
 * An overlay: the author of a runtime creates arenas and heaps with defaults in code; what an
 * operator wrote under their names is laid over them. Values come one key at a time
 * ("weights.reserve", "8GiB"), from an INI text or from an override line, all through one function
 * that refuses unknown keys, bad units and contradictions with file and line. The library reads no
 * file: callers hand in the text.
 *
 *   [model]
 *   label = rec               ; who is named in reports
 *   budget = 2GiB             ; committed bytes
 *   release_wait = 250ms      ; how long a release waits for what is not ready
 *
 *   [weights]                 ; the name of an arena or heap; [all]: every one
 *   reserve = 8GiB            ; addresses, not memory
 *   first = 1GiB              ; committed at creation
 *   step = 2MiB               ; the first growth, doubling ...
 *   step_max = 64MiB          ; ... up to this
 *   pages = thp               ; default | thp | hugetlb
 *   pages_fallback = yes      ; smaller pages where these are not to be had
 *   prefault = no             ; fault pages in at commit ...
 *   prefault_threads = 2      ; ... on this many threads
 *   guard = auto              ; auto | off | on      (arenas)
 *   lane = 64KiB              ; piece of a lane      (shared arenas)
 *   memory = host             ; a backend's name
 *   checked = yes             ; refuse bad frees     (heaps)
 *
 * guard and lane mean nothing to a heap, checked nothing to an arena; they are ignored there, so that
 * [all] may have them.
 *
 * A plain value in the caller's storage (about 6 KiB), copied by strata_model_open. One thread. */
#ifndef STRATA_CONFIG_H
#define STRATA_CONFIG_H

#include <strata/arena.h>

STRATA_BEGIN_DECLS

#define STRATA_CONFIG_NAMES_MAX   16
#define STRATA_CONFIG_SOURCES_MAX 8

/* Keys of a named arena or heap. The parser, the checks and the documentation's test run over this
 * list. */
#define STRATA_CONFIG_KEY_MAP(X)            \
    X(RESERVE, "reserve")                   \
    X(FIRST, "first")                       \
    X(STEP, "step")                         \
    X(STEP_MAX, "step_max")                 \
    X(PAGES, "pages")                       \
    X(PAGES_FALLBACK, "pages_fallback")     \
    X(PREFAULT, "prefault")                 \
    X(PREFAULT_THREADS, "prefault_threads") \
    X(GUARD, "guard")                       \
    X(LANE, "lane")                         \
    X(MEMORY, "memory")                     \
    X(CHECKED, "checked")

typedef enum strata_config_key {
#define STRATA_CONFIG_KEY_ENUM_(name, word) STRATA_CONFIG_##name,
    STRATA_CONFIG_KEY_MAP(STRATA_CONFIG_KEY_ENUM_)
#undef STRATA_CONFIG_KEY_ENUM_
        STRATA_CONFIG_KEY_COUNT_
} strata_config_key;

/* Where a value was written, for the errors of later checks. */
typedef struct strata_config_place {
    uint16_t source; /* index into `sources`; 0: set by code */
    uint32_t line;
} strata_config_place;

/* What was configured under one name. All fields are ours. */
typedef struct strata_config_entry {
    char name[STRATA_LABEL_MAX];
    uint32_t set_; /* a bit for each key */
    uint64_t value_[STRATA_CONFIG_KEY_COUNT_];
    strata_config_place place_[STRATA_CONFIG_KEY_COUNT_];
    char memory_[STRATA_LABEL_MAX];
} strata_config_entry;

typedef struct strata_model_config {
    char label[STRATA_LABEL_MAX]; /* "model" */
    uint64_t budget_bytes;        /* committed bytes; STRATA_UNLIMITED */
    uint64_t release_wait_ns;     /* how long a release without a deadline of its own waits; 0 */

    /* ours */
    strata_config_place budget_place_;
    strata_config_place label_place_;
    strata_config_place release_wait_place_;
    size_t entry_count_;
    strata_config_entry entries_[STRATA_CONFIG_NAMES_MAX];
    size_t source_count_;
    char sources_[STRATA_CONFIG_SOURCES_MAX][STRATA_LABEL_MAX * 2];
} strata_model_config;

STRATA_API void strata_model_config_init(strata_model_config *config);

/* One value: "weights.reserve", "8GiB". INVALID with what would be right; LIMIT for a 17th name.
 * On failure nothing changes. */
STRATA_API strata_status strata_model_config_set(strata_model_config *config, const char *key,
                                                 const char *value, strata_error *err);

/* A line of overrides: "weights.reserve:8GiB,run.pages:thp". Applied whole or not at all. */
STRATA_API strata_status strata_model_config_set_line(strata_model_config *config, const char *line,
                                                      strata_error *err);

/* An INI text of `length` bytes, called `source` in errors ("FILE:LINE: ..."). Sections, `key =
 * value`, comments from # or ; at the start of a line or after white space. A key twice in one text
 * is an error. Applied whole or not at all. */
STRATA_API strata_status strata_model_config_read(strata_model_config *config, const char *text,
                                                  size_t length, const char *source,
                                                  strata_error *err);

/* Contradictions that no single key shows: first above reserve, step above step_max, first extents
 * above the budget. strata_model_open asks as well. */
STRATA_API strata_status strata_model_config_check(const strata_model_config *config,
                                                   strata_error *err);

/* Refuses names that this program never creates, so that a misspelt section is no silent no-op. */
STRATA_API strata_status strata_model_config_expect(const strata_model_config *config,
                                                    const char *const *names, size_t count,
                                                    strata_error *err);

/* Lays what is configured under `all` and under config->region.label over *arena. */
STRATA_API strata_status strata_model_config_arena(const strata_model_config *config,
                                                   strata_arena_config *arena, strata_error *err);

/* The same for anything over a region (heaps): `checked` and `memory` may be NULL. */
STRATA_API strata_status strata_model_config_region(const strata_model_config *config,
                                                    strata_region_config *region, bool *checked,
                                                    const char **memory, strata_error *err);

STRATA_END_DECLS

#endif
