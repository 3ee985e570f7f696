/* What was called, written down; and calls that are to fail. */
#include "fake_driver.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST (1 << 16)

const int course_fake_driver = 1;

static const char *log_path(void) {
    const char *path = getenv("COURSE_FAKE_DRIVER_LOG");
    return path != NULL && path[0] != 0 ? path : NULL;
}

int recording(void) { return log_path() != NULL; }

CUresult record(const char *call, CUresult result, const char *more, ...) {
    const char *path = log_path();
    char *line;
    int length, descriptor;
    va_list values;
    if (path == NULL) return result;
    line = malloc(LONGEST);
    if (line == NULL) return result;
    length = snprintf(line, LONGEST / 2, "{\"call\": \"%s\", \"result\": %d", call, (int)result);
    va_start(values, more);
    length += vsnprintf(line + length, LONGEST / 2, more, values);
    va_end(values);
    length += snprintf(line + length, 4, "}\n");
    descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor >= 0) {
        /* In one piece, so that threads' lines do not mix. */
        if (write(descriptor, line, (size_t)length) != length) abort();
        close(descriptor);
    }
    free(line);
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
