/* What was called, written down; and calls that are to fail. */
#include "fake_driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST (1 << 16)

const int course_fake_driver = 1;

static const char *log_path(void) {
    const char *path = getenv("COURSE_FAKE_DRIVER_LOG");
    return path != NULL && path[0] != 0 ? path : NULL;
}

int recording(void) { return log_path() != NULL; }

CUresult record(const char *call, CUresult result, const char *more, ...) {
    const char *path = log_path();
    FILE *log = path == NULL ? NULL : fopen(path, "ae");
    char line[LONGEST];
    va_list values;
    if (log == NULL) return result;
    setvbuf(log, line, _IOFBF, sizeof line); /* written in one piece, so that threads' lines do not mix */
    fprintf(log, "{\"call\": \"%s\", \"result\": %d", call, (int)result);
    va_start(values, more);
    vfprintf(log, more, values);
    va_end(values);
    fputs("}\n", log);
    if (fclose(log) != 0) abort();
    return result;
}

CUresult told_to_fail(const char *call) {
    const char *at = getenv("COURSE_FAKE_DRIVER_FAIL");
    size_t length = strlen(call);
    while (at != NULL && at[0] != 0) {
        if (strncmp(at, call, length) == 0 && at[length] == '=') return (CUresult)atoi(at + length + 1);
        at = strchr(at, ',');
        if (at != NULL) at++;
    }
    return CUDA_SUCCESS;
}

/* The index-th of the numbers between commas, or the last. */
int number_from_environment(const char *name, int index, int otherwise) {
    const char *at = getenv(name), *next;
    if (at == NULL || at[0] == 0) return otherwise;
    while (index-- > 0 && (next = strchr(at, ',')) != NULL) at = next + 1;
    return atoi(at);
}
