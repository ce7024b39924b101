/* config.c - the values of a configuration: one setter, the overlay, the checks.
 *
 * Everything that was configured is kept as key, value and place, and laid over the defaults of the
 * code that creates an arena or heap only there; so the library needs no list of the names that
 * exist, and an operator's file stays valid when a runtime adds an arena. Text comes in through
 * ini.c, which calls the setter here. */
#include <strata/config.h>

#include "internal.h"

#include <stdio.h>
#include <string.h>

#include <strata/units.h>

#define THREADS_MAX STRATA_PREFAULT_THREADS_MAX

void strata_model_config_init(strata_model_config *config)
{
    memset(config, 0, sizeof *config);
    (void)snprintf(config->label, sizeof config->label, "model");
    config->budget_bytes = STRATA_UNLIMITED;
}

static const char *key_word(strata_config_key key)
{
    switch (key) {
#define CASE(name, word)       \
    case STRATA_CONFIG_##name: \
        return word;
        STRATA_CONFIG_KEY_MAP(CASE)
#undef CASE
    case STRATA_CONFIG_KEY_COUNT_:
        break;
    }
    return "?";
}

static bool find_key(const char *word, strata_config_key *key)
{
    for (int i = 0; i < STRATA_CONFIG_KEY_COUNT_; i++) {
        if (strcmp(word, key_word((strata_config_key)i)) == 0) {
            *key = (strata_config_key)i;
            return true;
        }
    }
    return false;
}

/* --- values ------------------------------------------------------------------------------------*/

static bool find_word(const char *value, const char *const *words, size_t count, uint64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(value, words[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static strata_status parse_pages(const char *value, uint64_t *out, strata_error *err)
{
    const char *words[] = {strata_pages_name(STRATA_PAGES_DEFAULT),
                           strata_pages_name(STRATA_PAGES_THP),
                           strata_pages_name(STRATA_PAGES_HUGETLB)};
    if (!find_word(value, words, 3, out)) {
        return strata_error_set(err, STRATA_INVALID,
                                "\"%.40s\" is no kind of pages; use default, thp or hugetlb",
                                value);
    }
    return STRATA_OK;
}

static strata_status parse_guard(const char *value, uint64_t *out, strata_error *err)
{
    static const char *const words[] = {"auto", "off", "on"}; /* in the enum's order */
    if (!find_word(value, words, 3, out)) {
        return strata_error_set(err, STRATA_INVALID, "\"%.40s\" is no guard; use auto, off or on",
                                value);
    }
    return STRATA_OK;
}

static strata_status parse_threads(const char *value, uint64_t *out, strata_error *err)
{
    uint64_t threads = 0;
    strata_status status = strata_size_parse(value, &threads, NULL);
    if (status != STRATA_OK || threads < 1 || threads > THREADS_MAX ||
        strspn(value, "0123456789") != strlen(value)) {
        return strata_error_set(err, STRATA_INVALID,
                                "\"%.40s\" is no number of threads from 1 to %d", value,
                                THREADS_MAX);
    }
    *out = threads;
    return STRATA_OK;
}

static strata_status parse_flag(const char *value, uint64_t *out, strata_error *err)
{
    bool flag = false;
    strata_status status = strata_bool_parse(value, &flag, err);
    *out = flag ? 1 : 0;
    return status;
}

/* A size that must not be 0, since 0 would silently mean something else. */
static strata_status parse_positive_size(const char *value, uint64_t *out, strata_error *err)
{
    strata_status status = strata_size_parse(value, out, err);
    if (status == STRATA_OK && *out == 0) {
        return strata_error_set(err, STRATA_INVALID, "must not be 0");
    }
    if (status == STRATA_OK && *out > (uint64_t)INTPTR_MAX / 2) {
        return strata_error_set(err, STRATA_INVALID, "%.40s is more than addresses can hold",
                                value);
    }
    return status;
}

static strata_status check_memory_name(const char *value, strata_error *err)
{
    if (!strata__config_name_is_valid(value)) {
        return strata_error_set(err, STRATA_INVALID,
                                "\"%.40s\" is no name of a kind of memory, such as host", value);
    }
    return STRATA_OK;
}

static strata_status parse_value(strata_config_key key, const char *value, uint64_t *out,
                                 strata_error *err)
{
    *out = 0;
    switch (key) {
    case STRATA_CONFIG_RESERVE:
    case STRATA_CONFIG_STEP:
    case STRATA_CONFIG_STEP_MAX:
    case STRATA_CONFIG_LANE:
        return parse_positive_size(value, out, err);
    case STRATA_CONFIG_FIRST:
        return strata_size_parse(value, out, err);
    case STRATA_CONFIG_PAGES:
        return parse_pages(value, out, err);
    case STRATA_CONFIG_GUARD:
        return parse_guard(value, out, err);
    case STRATA_CONFIG_PREFAULT_THREADS:
        return parse_threads(value, out, err);
    case STRATA_CONFIG_PAGES_FALLBACK:
    case STRATA_CONFIG_PREFAULT:
    case STRATA_CONFIG_CHECKED:
        return parse_flag(value, out, err);
    case STRATA_CONFIG_MEMORY:
        return check_memory_name(value, err);
    case STRATA_CONFIG_KEY_COUNT_:
        break;
    }
    return strata_error_set(err, STRATA_INVALID, "unknown key");
}

/* --- entries -----------------------------------------------------------------------------------*/

bool strata__config_name_is_valid(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length < STRATA_LABEL_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               length;
}

static const strata_config_entry *find_entry(const strata_model_config *config, const char *name)
{
    for (size_t i = 0; i < config->entry_count_; i++) {
        if (strcmp(config->entries_[i].name, name) == 0) {
            return &config->entries_[i];
        }
    }
    return NULL;
}

static strata_status entry_for(strata_model_config *config, const char *name,
                               strata_config_entry **out, strata_error *err)
{
    strata_config_entry *found = (strata_config_entry *)find_entry(config, name);
    if (found == NULL) {
        if (config->entry_count_ == STRATA_CONFIG_NAMES_MAX) {
            return strata_error_set(err, STRATA_LIMIT, "more than %d names are configured",
                                    STRATA_CONFIG_NAMES_MAX);
        }
        found = &config->entries_[config->entry_count_++];
        memset(found, 0, sizeof *found);
        (void)snprintf(found->name, sizeof found->name, "%s", name);
    }
    *out = found;
    return STRATA_OK;
}

static strata_status unknown_key(const char *word, strata_error *err)
{
    strata_status status =
        strata_error_set(err, STRATA_INVALID, "unknown key \"%.40s\"; known are", word);
    for (int key = 0; key < STRATA_CONFIG_KEY_COUNT_; key++) {
        strata_error_append(err, "%s %s", key > 0 ? "," : "", key_word((strata_config_key)key));
    }
    return status;
}

static strata_status set_in_entry(strata_model_config *config, const char *name, const char *word,
                                  const char *value, strata_config_place place, strata_error *err)
{
    strata_config_key key = STRATA_CONFIG_KEY_COUNT_;
    if (!find_key(word, &key)) {
        return unknown_key(word, err);
    }
    uint64_t parsed = 0;
    strata_status status = parse_value(key, value, &parsed, err);
    strata_config_entry *entry = NULL;
    if (status == STRATA_OK) {
        status = entry_for(config, name, &entry, err);
    }
    if (status != STRATA_OK) {
        return status;
    }
    entry->set_ |= UINT32_C(1) << key;
    entry->value_[key] = parsed;
    entry->place_[key] = place;
    if (key == STRATA_CONFIG_MEMORY) {
        (void)snprintf(entry->memory_, sizeof entry->memory_, "%s", value);
    }
    return STRATA_OK;
}

static strata_status set_in_model(strata_model_config *config, const char *word, const char *value,
                                  strata_config_place place, strata_error *err)
{
    if (strcmp(word, "budget") == 0) {
        strata_status status = strata_size_parse(value, &config->budget_bytes, err);
        if (status == STRATA_OK) {
            config->budget_place_ = place;
        }
        return status;
    }
    if (strcmp(word, "release_wait") == 0) {
        strata_status status = strata_time_parse(value, &config->release_wait_ns, err);
        if (status == STRATA_OK) {
            config->release_wait_place_ = place;
        }
        return status;
    }
    if (strcmp(word, "label") == 0) {
        if (strlen(value) == 0 || strlen(value) >= STRATA_LABEL_MAX) {
            return strata_error_set(err, STRATA_INVALID, "a label has 1 to %d characters",
                                    STRATA_LABEL_MAX - 1);
        }
        config->label_place_ = place;
        (void)snprintf(config->label, sizeof config->label, "%s", value);
        return STRATA_OK;
    }
    return strata_error_set(err, STRATA_INVALID,
                            "unknown key \"%.40s\"; known are budget, label, release_wait", word);
}

/* The line in which this text has set the key already. */
bool strata__config_was_set(const strata_model_config *config, const char *section,
                            const char *word, uint16_t source, uint32_t *line)
{
    strata_config_place place = {0, 0};
    strata_config_key key = STRATA_CONFIG_KEY_COUNT_;
    const strata_config_entry *entry = find_entry(config, section);
    if (strcmp(section, "model") == 0) {
        place = strcmp(word, "budget") == 0         ? config->budget_place_
                : strcmp(word, "label") == 0        ? config->label_place_
                : strcmp(word, "release_wait") == 0 ? config->release_wait_place_
                                                    : place;
    } else if (entry != NULL && find_key(word, &key)) {
        place = entry->place_[key];
    }
    *line = place.line;
    return place.source == source;
}

strata_status strata__config_set_at(strata_model_config *config, const char *section,
                                    const char *word, const char *value, strata_config_place place,
                                    strata_error *err)
{
    strata_status status;
    if (!strata__config_name_is_valid(section)) {
        status = strata_error_set(err, STRATA_INVALID,
                                  "\"%.40s\" is no name; use letters, digits, _ and -", section);
    } else if (strcmp(section, "model") == 0) {
        status = set_in_model(config, word, value, place, err);
    } else {
        status = set_in_entry(config, section, word, value, place, err);
    }
    if (status != STRATA_OK) {
        strata_error_context(err, "%.40s.%.40s", section, word);
    }
    return status;
}

strata_status strata_model_config_set(strata_model_config *config, const char *key,
                                      const char *value, strata_error *err)
{
    const char *dot = strrchr(key, '.');
    if (dot == NULL || dot == key || dot[1] == '\0' || (size_t)(dot - key) >= STRATA_LABEL_MAX) {
        return strata_error_set(err, STRATA_INVALID,
                                "\"%.60s\" is no key; write NAME.KEY, such as weights.reserve",
                                key);
    }
    char section[STRATA_LABEL_MAX];
    (void)snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
    return strata__config_set_at(config, section, dot + 1, value, (strata_config_place){0, 0}, err);
}

#define OVERRIDE_MAX 256

/* One "NAME.KEY:VALUE" of an override line. */
static strata_status set_override(strata_model_config *config, const char *text, size_t length,
                                  strata_error *err)
{
    char pair[OVERRIDE_MAX];
    if (length >= sizeof pair) {
        return strata_error_set(err, STRATA_INVALID, "an override is longer than %d characters",
                                OVERRIDE_MAX - 1);
    }
    (void)snprintf(pair, sizeof pair, "%.*s", (int)length, text);
    char *colon = strchr(pair, ':');
    if (colon == NULL) {
        return strata_error_set(err, STRATA_INVALID,
                                "\"%.60s\" is no override; write NAME.KEY:VALUE", pair);
    }
    *colon = '\0';
    return strata_model_config_set(config, pair, colon + 1, err);
}

strata_status strata_model_config_set_line(strata_model_config *config, const char *line,
                                           strata_error *err)
{
    strata_model_config changed = *config;
    const char *at = line;
    for (;;) {
        size_t length = strcspn(at, ",");
        strata_status status = set_override(&changed, at, length, err);
        if (status != STRATA_OK) {
            return status;
        }
        if (at[length] == '\0') {
            break;
        }
        at += length + 1;
    }
    *config = changed;
    return STRATA_OK;
}

/* --- checks ------------------------------------------------------------------------------------*/

static bool is_set(const strata_config_entry *entry, strata_config_key key)
{
    return entry != NULL && (entry->set_ & (UINT32_C(1) << key)) != 0;
}

void strata__config_place_context(const strata_model_config *config, strata_config_place place,
                                  strata_error *err)
{
    if (place.source > 0 && place.source <= config->source_count_) {
        strata_error_context(err, "%s:%u", config->sources_[place.source - 1],
                             (unsigned)place.line);
    }
}

void strata__config_memory_context(const strata_model_config *config, const char *label,
                                   strata_error *err)
{
    const strata_config_entry *own = find_entry(config, label);
    const strata_config_entry *entry =
        is_set(own, STRATA_CONFIG_MEMORY) ? own : find_entry(config, "all");
    if (is_set(entry, STRATA_CONFIG_MEMORY)) {
        strata__config_place_context(config, entry->place_[STRATA_CONFIG_MEMORY], err);
    }
}

/* Where both keys are configured under a name (or `all`), the first must not exceed the second. */
static strata_status check_at_most(const strata_model_config *config,
                                   const strata_config_entry *entry, strata_config_key small,
                                   strata_config_key large, strata_error *err)
{
    const strata_config_entry *all = find_entry(config, "all");
    const strata_config_entry *of_small = is_set(entry, small) ? entry : all;
    const strata_config_entry *of_large = is_set(entry, large) ? entry : all;
    if (!is_set(of_small, small) || !is_set(of_large, large) ||
        of_small->value_[small] <= of_large->value_[large]) {
        return STRATA_OK;
    }
    strata_status status = strata_error_set(
        err, STRATA_INVALID, "%s.%s (%llu bytes) is larger than %s.%s (%llu bytes)", of_small->name,
        key_word(small), (unsigned long long)of_small->value_[small], of_large->name,
        key_word(large), (unsigned long long)of_large->value_[large]);
    strata__config_place_context(config, of_small->place_[small], err);
    return status;
}

/* First extents are committed at creation; a budget below their sum can never be opened. */
static strata_status check_budget(const strata_model_config *config, strata_error *err)
{
    uint64_t sum = 0;
    const strata_config_entry *last = NULL;
    for (size_t i = 0; i < config->entry_count_; i++) {
        const strata_config_entry *entry = &config->entries_[i];
        if (strcmp(entry->name, "all") == 0 || !is_set(entry, STRATA_CONFIG_FIRST)) {
            continue;
        }
        uint64_t first = entry->value_[STRATA_CONFIG_FIRST];
        sum = first > UINT64_MAX - sum ? UINT64_MAX : sum + first;
        last = entry;
    }
    if (last == NULL || sum <= config->budget_bytes) {
        return STRATA_OK;
    }
    strata_status status = strata_error_set(
        err, STRATA_INVALID,
        "the first extents (%llu bytes) are larger than model.budget (%llu bytes); raise the "
        "budget or lower `first`",
        (unsigned long long)sum, (unsigned long long)config->budget_bytes);
    strata__config_place_context(config, config->budget_place_, err);
    return status;
}

strata_status strata_model_config_check(const strata_model_config *config, strata_error *err)
{
    for (size_t i = 0; i < config->entry_count_; i++) {
        const strata_config_entry *entry = &config->entries_[i];
        strata_status status =
            check_at_most(config, entry, STRATA_CONFIG_FIRST, STRATA_CONFIG_RESERVE, err);
        if (status == STRATA_OK) {
            status = check_at_most(config, entry, STRATA_CONFIG_STEP, STRATA_CONFIG_STEP_MAX, err);
        }
        if (status != STRATA_OK) {
            return status;
        }
    }
    return check_budget(config, err);
}

static strata_config_place first_place(const strata_config_entry *entry)
{
    for (int key = 0; key < STRATA_CONFIG_KEY_COUNT_; key++) {
        if (is_set(entry, (strata_config_key)key)) {
            return entry->place_[key];
        }
    }
    return (strata_config_place){0, 0};
}

static strata_status unexpected(const strata_model_config *config, const strata_config_entry *entry,
                                const char *const *names, size_t count, strata_error *err)
{
    strata_status status = strata_error_set(
        err, STRATA_INVALID, "nothing here is called \"%s\"; known names: all", entry->name);
    for (size_t i = 0; i < count; i++) {
        strata_error_append(err, ", %s", names[i]);
    }
    strata__config_place_context(config, first_place(entry), err);
    return status;
}

strata_status strata_model_config_expect(const strata_model_config *config,
                                         const char *const *names, size_t count, strata_error *err)
{
    for (size_t i = 0; i < config->entry_count_; i++) {
        const strata_config_entry *entry = &config->entries_[i];
        bool known = strcmp(entry->name, "all") == 0;
        for (size_t k = 0; k < count && !known; k++) {
            known = strcmp(entry->name, names[k]) == 0;
        }
        if (!known) {
            return unexpected(config, entry, names, count, err);
        }
    }
    return STRATA_OK;
}

/* --- the overlay -------------------------------------------------------------------------------*/

static void overlay_size(const strata_config_entry *entry, strata_config_key key, size_t *field)
{
    if (is_set(entry, key)) {
        *field = (size_t)entry->value_[key];
    }
}

static void overlay_flag(const strata_config_entry *entry, strata_config_key key, bool *field)
{
    if (is_set(entry, key)) {
        *field = entry->value_[key] != 0;
    }
}

static void overlay_region(const strata_config_entry *entry, strata_region_config *region,
                           bool *checked, const char **memory)
{
    overlay_size(entry, STRATA_CONFIG_RESERVE, &region->reserve_bytes);
    overlay_size(entry, STRATA_CONFIG_FIRST, &region->first_bytes);
    overlay_size(entry, STRATA_CONFIG_STEP, &region->step_bytes);
    overlay_size(entry, STRATA_CONFIG_STEP_MAX, &region->step_max_bytes);
    overlay_flag(entry, STRATA_CONFIG_PAGES_FALLBACK, &region->pages_fallback);
    overlay_flag(entry, STRATA_CONFIG_PREFAULT, &region->prefault);
    if (is_set(entry, STRATA_CONFIG_PAGES)) {
        region->pages = (strata_pages)entry->value_[STRATA_CONFIG_PAGES];
    }
    if (is_set(entry, STRATA_CONFIG_PREFAULT_THREADS)) {
        region->prefault_threads = (unsigned)entry->value_[STRATA_CONFIG_PREFAULT_THREADS];
    }
    if (checked != NULL) {
        overlay_flag(entry, STRATA_CONFIG_CHECKED, checked);
    }
    if (memory != NULL && is_set(entry, STRATA_CONFIG_MEMORY)) {
        *memory = entry->memory_;
    }
}

/* What was configured may contradict the code's default for what was not. */
static strata_status check_overlaid(const strata_model_config *config,
                                    const strata_config_entry *entry,
                                    const strata_region_config *region, strata_error *err)
{
    if (!is_set(entry, STRATA_CONFIG_FIRST) || region->first_bytes <= region->reserve_bytes) {
        return STRATA_OK;
    }
    strata_status status = strata_error_set(
        err, STRATA_INVALID,
        "%s.first (%zu bytes) is larger than %s.reserve (%zu bytes); raise %s.reserve", entry->name,
        region->first_bytes, region->label, region->reserve_bytes, region->label);
    strata__config_place_context(config, entry->place_[STRATA_CONFIG_FIRST], err);
    return status;
}

strata_status strata_model_config_region(const strata_model_config *config,
                                         strata_region_config *region, bool *checked,
                                         const char **memory, strata_error *err)
{
    if (region->label == NULL || !strata__config_name_is_valid(region->label)) {
        return strata_error_set(err, STRATA_INVALID, "a label has 1 to %d letters, digits, _ and -",
                                STRATA_LABEL_MAX - 1);
    }
    if (strcmp(region->label, "model") == 0 || strcmp(region->label, "all") == 0) {
        return strata_error_set(err, STRATA_INVALID,
                                "\"%s\" has a meaning of its own in configurations; choose another "
                                "label",
                                region->label);
    }
    const strata_config_entry *all = find_entry(config, "all");
    const strata_config_entry *own = find_entry(config, region->label);
    overlay_region(all, region, checked, memory);
    overlay_region(own, region, checked, memory);
    return check_overlaid(config, is_set(own, STRATA_CONFIG_FIRST) ? own : all, region, err);
}

static void overlay_arena(const strata_config_entry *entry, strata_arena_config *arena)
{
    overlay_size(entry, STRATA_CONFIG_LANE, &arena->lane_bytes);
    if (is_set(entry, STRATA_CONFIG_GUARD)) {
        arena->guard = (strata_guard)entry->value_[STRATA_CONFIG_GUARD];
    }
}

strata_status strata_model_config_arena(const strata_model_config *config,
                                        strata_arena_config *arena, strata_error *err)
{
    strata_status status =
        strata_model_config_region(config, &arena->region, NULL, &arena->memory, err);
    if (status == STRATA_OK) {
        overlay_arena(find_entry(config, "all"), arena);
        overlay_arena(find_entry(config, arena->region.label), arena);
    }
    return status;
}
