/* Makes a recorded list of NVML calls again and again and tells what that costs: the least that anybody who
 * wants these values must pay.
 *
 *   driver_calls LIBRARY LIST TIMES
 *
 * Each line of LIST is a function and its arguments: a number; d3, e0, s5 for the pointer that the library gave
 * for device 3, event set 0, GPM sample 5; or b<hex> for a buffer with that content, followed by @<place>:<name>
 * for every pointer that stands in it. Prints microseconds of CPU time per pass over the list, and how many of
 * its calls did not succeed.
 *
 * Arguments are all integers or pointers, so that one function type calls every function of the library on
 * the ABIs of x86-64 and arm64. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_ARGUMENTS = 6, MOST_NAMED = 256, PATCHES = 8, LONGEST_LINE = 1 << 20 };

typedef unsigned long word;
typedef int (*function)(word, word, word, word, word, word);

struct patch {
    size_t place;
    void **pointer;
};

struct argument {
    word value;
    void **pointer;          /* a name: looked up when the call is made */
    unsigned char *content;  /* a buffer as it is before the call */
    unsigned char *buffer;
    size_t size;
    struct patch patches[PATCHES];
    int patch_count;
};

struct call {
    function function;
    struct argument arguments[MOST_ARGUMENTS];
    int argument_count;
};

static void *devices[MOST_NAMED], *event_sets[MOST_NAMED], *samples[MOST_NAMED];

static void fail(const char *what, const char *which) {
    fprintf(stderr, "driver_calls: %s: %s\n", what, which);
    exit(1);
}

static function find(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol)
        fail("the library has no such function", name);
    return (function)(word)symbol;
}

static void **named(const char *name) {
    int place = atoi(name + 1);
    if (place < 0 || place >= MOST_NAMED)
        fail("no place for", name);
    switch (name[0]) {
    case 'd':
        return &devices[place];
    case 'e':
        return &event_sets[place];
    case 's':
        return &samples[place];
    default:
        fail("not an argument", name);
        return NULL;
    }
}

static void *reserve(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        fail("out of memory", "");
    return memory;
}

static void read_buffer(struct argument *argument, char *text) {
    size_t digits = strcspn(text, "@");
    argument->size = digits / 2;
    argument->content = reserve(argument->size);
    argument->buffer = reserve(argument->size);
    for (size_t i = 0; i < argument->size; i++) {
        unsigned int byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            fail("not hexadecimal", text);
        argument->content[i] = (unsigned char)byte;
    }
    for (char *at = strchr(text, '@'); at; at = strchr(at + 1, '@')) {
        char *colon = strchr(at, ':');
        if (!colon || argument->patch_count == PATCHES)
            fail("not a list of pointers", at);
        argument->patches[argument->patch_count++] = (struct patch){strtoul(at + 1, NULL, 10), named(colon + 1)};
    }
}

static struct call read_call(void *library, char *line) {
    struct call call = {0};
    char *rest;
    call.function = find(library, strtok_r(line, " \n", &rest));
    for (char *text; (text = strtok_r(NULL, " \n", &rest));) {
        if (call.argument_count == MOST_ARGUMENTS)
            fail("too many arguments", text);
        struct argument *argument = &call.arguments[call.argument_count++];
        if (text[0] == 'b')
            read_buffer(argument, text + 1);
        else if (text[0] >= '0' && text[0] <= '9')
            argument->value = strtoul(text, NULL, 10);
        else
            argument->pointer = named(text);
    }
    return call;
}

static struct call *read_calls(void *library, const char *path, size_t *count) {
    static char line[LONGEST_LINE];
    struct call *calls = NULL;
    FILE *file = fopen(path, "r");
    if (!file)
        fail("cannot be read", path);
    *count = 0;
    while (fgets(line, sizeof line, file)) {
        calls = realloc(calls, (*count + 1) * sizeof *calls);
        if (!calls)
            fail("out of memory", path);
        calls[(*count)++] = read_call(library, line);
    }
    fclose(file);
    return calls;
}

/* What the list takes for granted: an open library, devices, an event set, samples to fill. */
static void prepare(void *library) {
    unsigned int count = 0;
    if (find(library, "nvmlInit_v2")(0, 0, 0, 0, 0, 0) != 0)
        fail("nvmlInit_v2", "does not succeed");
    find(library, "nvmlDeviceGetCount_v2")((word)&count, 0, 0, 0, 0, 0);
    for (unsigned int i = 0; i < count && i < MOST_NAMED; i++)
        find(library, "nvmlDeviceGetHandleByIndex_v2")(i, (word)&devices[i], 0, 0, 0, 0);
    find(library, "nvmlEventSetCreate")((word)&event_sets[0], 0, 0, 0, 0, 0);
    for (unsigned int i = 0; i < MOST_NAMED; i++)
        find(library, "nvmlGpmSampleAlloc")((word)&samples[i], 0, 0, 0, 0, 0);
}

static int make(struct call *call) {
    word values[MOST_ARGUMENTS] = {0};
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        if (argument->buffer) {
            memcpy(argument->buffer, argument->content, argument->size);
            for (int p = 0; p < argument->patch_count; p++)
                memcpy(argument->buffer + argument->patches[p].place, argument->patches[p].pointer, sizeof(void *));
            values[i] = (word)argument->buffer;
        } else {
            values[i] = argument->pointer ? (word)*argument->pointer : argument->value;
        }
    }
    return call->function(values[0], values[1], values[2], values[3], values[4], values[5]);
}

static size_t pass(struct call *calls, size_t count) {
    size_t refused = 0;
    for (size_t i = 0; i < count; i++)
        refused += make(&calls[i]) != 0;
    return refused;
}

static double cpu_microseconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int count, char **words) {
    if (count != 4)
        fail("usage", "driver_calls LIBRARY LIST TIMES");
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library)
        fail("cannot be loaded", dlerror());
    size_t call_count, refused = 0;
    struct call *calls = read_calls(library, words[2], &call_count);
    int times = atoi(words[3]);
    prepare(library);
    pass(calls, call_count); /* fills the samples that later passes compare with */
    double started = cpu_microseconds();
    for (int i = 0; i < times; i++)
        refused = pass(calls, call_count);
    printf("%.1f %zu\n", (cpu_microseconds() - started) / times, refused);
    return 0;
}
