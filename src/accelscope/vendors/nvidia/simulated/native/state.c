#define _GNU_SOURCE /* dladdr */
#include "state.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HANG_POLL_MILLISECONDS 20

struct state {
    char *text;
    char **lines; /* sorted; each is "key\0value" */
    size_t count;
    struct stat file;
    int references;
};

static char state_path[PATH_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct state *current;
static int open_count;
static bool identified[MAX_GPUS]; /* GPUs whose identity was read since the library was opened */

static struct nvmlDevice_st gpus[MAX_GPUS];
static struct nvmlDevice_st instances[MAX_GPUS][MAX_INSTANCES];

/* The library is in DIR/lib and its state in DIR/state, so no setting is needed to find it. */
__attribute__((constructor)) static void find_state(void) {
    Dl_info self;
    char path[PATH_MAX];
    if (dladdr(&lock, &self) && self.dli_fname && realpath(self.dli_fname, path)) {
        char *slash = strrchr(path, '/');
        if (slash)
            *slash = '\0';
        if (snprintf(state_path, sizeof state_path, "%s/../state/nvml", path) >= (int)sizeof state_path)
            state_path[0] = '\0';
    }
    for (int slot = 0; slot < MAX_GPUS; slot++) {
        gpus[slot] = (struct nvmlDevice_st){slot, -1};
        for (int instance = 0; instance < MAX_INSTANCES; instance++)
            instances[slot][instance] = (struct nvmlDevice_st){slot, instance};
    }
}

nvmlDevice_t gpu_handle(int slot) { return slot >= 0 && slot < MAX_GPUS ? &gpus[slot] : NULL; }

nvmlDevice_t instance_handle(int slot, int instance) { return &instances[slot][instance]; }

static bool is_handle(nvmlDevice_t device) {
    return (device >= &gpus[0] && device < &gpus[MAX_GPUS]) ||
           (device >= &instances[0][0] && device < &instances[MAX_GPUS - 1][MAX_INSTANCES]);
}

static int compare_lines(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void free_state(struct state *state) {
    free(state->lines);
    free(state->text);
    free(state);
}

static char *read_whole(int descriptor, size_t size) {
    char *text = malloc(size + 1);
    size_t have = 0;
    while (text && have < size) {
        ssize_t more = read(descriptor, text + have, size - have);
        if (more <= 0)
            break;
        have += (size_t)more;
    }
    if (text)
        text[have] = '\0';
    return text;
}

static bool index_lines(struct state *state) {
    size_t room = 1;
    for (const char *at = state->text; *at; at++)
        room += *at == '\n';
    state->lines = malloc(room * sizeof *state->lines);
    if (!state->lines)
        return false;
    for (char *line = state->text; *line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        char *equals = strchr(line, '=');
        if (equals) {
            *equals = '\0';
            state->lines[state->count++] = line;
        }
        if (!end)
            break;
        line = end + 1;
    }
    qsort(state->lines, state->count, sizeof *state->lines, compare_lines);
    return true;
}

static struct state *load(void) {
    struct state *state = calloc(1, sizeof *state);
    int descriptor = open(state_path, O_RDONLY | O_CLOEXEC);
    if (state && descriptor >= 0 && fstat(descriptor, &state->file) == 0)
        state->text = read_whole(descriptor, (size_t)state->file.st_size);
    if (descriptor >= 0)
        close(descriptor);
    if (state && (!state->text || !index_lines(state))) {
        free_state(state);
        state = NULL;
    }
    return state;
}

static bool is_current(const struct stat *file) {
    return current && current->file.st_ino == file->st_ino && current->file.st_size == file->st_size &&
           current->file.st_mtim.tv_sec == file->st_mtim.tv_sec &&
           current->file.st_mtim.tv_nsec == file->st_mtim.tv_nsec;
}

static void release_locked(struct state *state) {
    if (state && --state->references == 0)
        free_state(state);
}

const struct state *state_acquire(void) {
    struct stat file;
    pthread_mutex_lock(&lock);
    if (stat(state_path, &file) != 0) {
        release_locked(current);
        current = NULL;
    } else if (!is_current(&file)) {
        struct state *fresh = load();
        release_locked(current);
        current = fresh;
        if (current)
            current->references = 1; /* held by `current` */
    }
    if (current)
        current->references++;
    struct state *state = current;
    pthread_mutex_unlock(&lock);
    return state;
}

void state_release(const struct state *state) {
    pthread_mutex_lock(&lock);
    release_locked((struct state *)state);
    pthread_mutex_unlock(&lock);
}

/* Frees the state on unload, so that loading the library repeatedly does not leak memory. */
__attribute__((destructor)) static void forget_state(void) {
    release_locked(current);
    current = NULL;
}

const char *state_get(const struct state *state, const char *key) {
    size_t low = 0, high = state->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(state->lines[middle], key);
        if (order == 0)
            return state->lines[middle] + strlen(key) + 1;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

void sleep_milliseconds(unsigned int milliseconds) {
    struct timespec rest = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000L};
    while (nanosleep(&rest, &rest) != 0) {
    }
}

unsigned long long now_microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000ull + (unsigned long long)now.tv_nsec / 1000ull;
}

/* A real driver call uses CPU time of the calling thread, so this does not sleep. */
static void burn(const struct state *state) {
    const char *cost = state_get(state, "system.call_cost_us");
    long microseconds = cost ? atol(cost) : 0;
    struct timespec start, now;
    if (microseconds <= 0)
        return;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000L + (now.tv_nsec - start.tv_nsec) / 1000L < microseconds);
}

static bool has_value(const struct state *state, const char *key, const char *word) {
    const char *value = state_get(state, key);
    return value && strcmp(value, word) == 0;
}

/* The state, as soon as neither the library nor the GPU hangs (`gpu_fault` NULL: no GPU). */
static const struct state *wait_while_hung(const char *gpu_fault) {
    for (;;) {
        const struct state *state = state_acquire();
        if (!state)
            return NULL;
        if (!has_value(state, "fault.library", "hang") && !(gpu_fault && has_value(state, gpu_fault, "hang")))
            return state;
        state_release(state);
        sleep_milliseconds(HANG_POLL_MILLISECONDS);
    }
}

static nvmlReturn_t driver_result(const struct state *state, bool opening) {
    if (!state || has_value(state, "fault.library", "driver_not_loaded"))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    /* Processes that opened the library before the driver was replaced continue to work. */
    if (opening && has_value(state, "fault.library", "version_mismatch"))
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    return NVML_SUCCESS;
}

nvmlReturn_t library_open(void) {
    const struct state *state = wait_while_hung(NULL);
    nvmlReturn_t result = driver_result(state, true);
    if (state)
        state_release(state);
    if (result == NVML_SUCCESS) {
        pthread_mutex_lock(&lock);
        if (open_count++ == 0)
            memset(identified, 0, sizeof identified);
        pthread_mutex_unlock(&lock);
    }
    return result;
}

nvmlReturn_t library_close(void) {
    const struct state *state = wait_while_hung(NULL);
    if (state)
        state_release(state);
    pthread_mutex_lock(&lock);
    bool was_open = open_count > 0;
    open_count -= was_open;
    pthread_mutex_unlock(&lock);
    return was_open ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

static bool is_open(void) {
    pthread_mutex_lock(&lock);
    bool open = open_count > 0;
    pthread_mutex_unlock(&lock);
    return open;
}

static nvmlReturn_t begin(struct call *call, const char *gpu_fault) {
    if (!is_open())
        return NVML_ERROR_UNINITIALIZED;
    call->state = wait_while_hung(gpu_fault);
    nvmlReturn_t result = driver_result(call->state, false);
    if (call->state)
        burn(call->state);
    if (result != NVML_SUCCESS && call->state)
        state_release(call->state);
    return result;
}

nvmlReturn_t call_begin(struct call *call) {
    call->device = NULL;
    call->prefix[0] = '\0';
    return begin(call, NULL);
}

static nvmlReturn_t begin_on(struct call *call, nvmlDevice_t device, bool remembered) {
    char fault_key[32];
    if (!is_open())
        return NVML_ERROR_UNINITIALIZED;
    if (!is_handle(device))
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(fault_key, sizeof fault_key, "gpu%d.fault", device->slot);
    nvmlReturn_t result = begin(call, remembered ? NULL : fault_key);
    if (result != NVML_SUCCESS)
        return result;
    call->device = device;
    if (device->instance < 0)
        snprintf(call->prefix, sizeof call->prefix, "gpu%d.", device->slot);
    else
        snprintf(call->prefix, sizeof call->prefix, "gpu%d.mig%d.", device->slot, device->instance);
    const char *uuid;
    if (has_value(call->state, fault_key, "lost") || has_value(call->state, fault_key, "vanished"))
        result = NVML_ERROR_GPU_IS_LOST;
    else if (has_value(call->state, fault_key, "reset_required"))
        result = NVML_ERROR_RESET_REQUIRED;
    else if (call_text(call, "uuid", &uuid) != NVML_SUCCESS)
        result = NVML_ERROR_INVALID_ARGUMENT; /* a removed MIG device, or a GPU of another node */
    if (result != NVML_SUCCESS)
        state_release(call->state);
    return result;
}

nvmlReturn_t call_begin_device(struct call *call, nvmlDevice_t device) {
    return begin_on(call, device, false);
}

nvmlReturn_t call_begin_identity(struct call *call, nvmlDevice_t device) {
    pthread_mutex_lock(&lock);
    bool remembered = is_handle(device) && identified[device->slot];
    pthread_mutex_unlock(&lock);
    nvmlReturn_t result = begin_on(call, device, remembered);
    if (result == NVML_SUCCESS) {
        pthread_mutex_lock(&lock);
        identified[device->slot] = true;
        pthread_mutex_unlock(&lock);
    }
    return result;
}

void call_end(struct call *call) { state_release(call->state); }

static nvmlReturn_t error_named(const char *name) {
    static const struct {
        const char *name;
        nvmlReturn_t code;
    } errors[] = {
        {"NOT_SUPPORTED", NVML_ERROR_NOT_SUPPORTED}, {"NO_PERMISSION", NVML_ERROR_NO_PERMISSION},
        {"NOT_FOUND", NVML_ERROR_NOT_FOUND},         {"GPU_IS_LOST", NVML_ERROR_GPU_IS_LOST},
        {"NO_DATA", NVML_ERROR_NO_DATA},             {"DEPRECATED", NVML_ERROR_DEPRECATED},
        {"INVALID_ARGUMENT", NVML_ERROR_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(name, errors[i].name) == 0)
            return errors[i].code;
    return NVML_ERROR_UNKNOWN;
}

nvmlReturn_t call_text(const struct call *call, const char *key, const char **value) {
    char whole[96];
    if (snprintf(whole, sizeof whole, "%s%s", call->prefix, key) >= (int)sizeof whole)
        return NVML_ERROR_NOT_SUPPORTED;
    *value = state_get(call->state, whole);
    if (!*value)
        return NVML_ERROR_NOT_SUPPORTED;
    return (*value)[0] == '!' ? error_named(*value + 1) : NVML_SUCCESS;
}

nvmlReturn_t call_ull(const struct call *call, const char *key, unsigned long long *value) {
    const char *text;
    nvmlReturn_t result = call_text(call, key, &text);
    if (result == NVML_SUCCESS)
        *value = text[0] == '-' ? (unsigned long long)strtoll(text, NULL, 10) : strtoull(text, NULL, 10);
    return result;
}

nvmlReturn_t call_uint(const struct call *call, const char *key, unsigned int *value) {
    unsigned long long wide;
    nvmlReturn_t result = call_ull(call, key, &wide);
    if (result == NVML_SUCCESS)
        *value = (unsigned int)wide;
    return result;
}

unsigned int call_uint_or(const struct call *call, const char *key, unsigned int otherwise) {
    unsigned int value;
    return call_uint(call, key, &value) == NVML_SUCCESS ? value : otherwise;
}

nvmlReturn_t copy_text(const char *text, char *buffer, unsigned int length) {
    size_t size = strlen(text) + 1;
    if (!buffer)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (size > length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(buffer, text, size);
    return NVML_SUCCESS;
}
