/* fuzz_config.c - libFuzzer over the configuration's texts. Promises: no crash and no overrun; a
 * text that is refused changes nothing and leaves one line; one that is accepted can be laid over
 * the defaults without a crash. The first byte chooses between INI text and override line. */
#include <strata/config.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refused(const strata_error *error)
{
    if (error->status == STRATA_OK || error->text[0] == '\0' || strchr(error->text, '\n') != NULL) {
        abort();
    }
}

static void check_accepted(const strata_model_config *config)
{
    strata_arena_config arena;
    strata_arena_config_init(&arena);
    arena.region.label = "weights";
    strata_error error;
    if (strata_model_config_arena(config, &arena, &error) != STRATA_OK) {
        check_refused(&error);
    }
}

static strata_status read_line(strata_model_config *config, const uint8_t *data, size_t size,
                               strata_error *error)
{
    char *line = malloc(size + 1);
    if (line == NULL) {
        abort();
    }
    memcpy(line, data, size);
    line[size] = '\0';
    strata_status status = strata_model_config_set_line(config, line, error);
    free(line);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    strata_model_config config;
    strata_model_config_init(&config);
    strata_model_config before = config;
    strata_error error = {.status = STRATA_OK};
    strata_status status = data[0] % 2 == 0
                               ? read_line(&config, data + 1, size - 1, &error)
                               : strata_model_config_read(&config, (const char *)data + 1, size - 1,
                                                          "fuzz.ini", &error);
    if (status == STRATA_OK) {
        check_accepted(&config);
        return 0;
    }
    check_refused(&error);
    if (memcmp(&before, &config, sizeof config) != 0) { // NOLINT: both began as zeros
        abort();
    }
    return 0;
}
