/* json_get.c - what the scripts here know of JSON: is stdin one document, and what is at PATH?
 *
 *   json_get PATH < document       "models.0.release.verdict"; "." is the document itself
 *
 * Prints strings and numbers as they are, true, false, null, and for arrays and objects how many
 * they have. Exit status 1, with a line, where stdin is not exactly one document or has nothing
 * there. */
#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const json_t *step(const json_t *from, const char *key)
{
    if (json_is_array(from)) {
        char *end;
        unsigned long index = strtoul(key, &end, 10);
        return *end == '\0' ? json_array_get(from, index) : NULL;
    }
    return json_object_get(from, key);
}

static const json_t *find(const json_t *from, char *path)
{
    if (strcmp(path, ".") == 0) {
        return from;
    }
    char *rest = NULL;
    for (char *key = strtok_r(path, ".", &rest); key != NULL && from != NULL;
         key = strtok_r(NULL, ".", &rest)) {
        from = step(from, key);
    }
    return from;
}

static void print(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        (void)puts(json_string_value(value));
        break;
    case JSON_INTEGER:
        (void)printf("%" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
        break;
    case JSON_REAL:
        (void)printf("%.9g\n", json_real_value(value));
        break;
    case JSON_ARRAY:
        (void)printf("%zu\n", json_array_size(value));
        break;
    case JSON_OBJECT:
        (void)printf("%zu\n", json_object_size(value));
        break;
    default:
        (void)puts(json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null");
        break;
    }
}

int main(int argc, char **argv)
{
    json_error_t error;
    if (argc != 2) {
        (void)fprintf(stderr, "usage: json_get PATH < document\n");
        return 2;
    }
    json_t *document = json_loadf(stdin, JSON_REJECT_DUPLICATES, &error);
    if (document == NULL) {
        (void)fprintf(stderr, "json_get: line %d: %s\n", error.line, error.text);
        return 1;
    }
    char *path = strdup(argv[1]);
    const json_t *found = path == NULL ? NULL : find(document, path);
    if (found == NULL) {
        (void)fprintf(stderr, "json_get: nothing at %s\n", argv[1]);
    } else {
        print(found);
    }
    free(path);
    json_decref(document);
    return found == NULL ? 1 : 0;
}
