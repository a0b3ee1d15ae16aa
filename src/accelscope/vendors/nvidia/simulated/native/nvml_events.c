/* Event sets. The state contains the XIDs of a GPU, each with an increasing number
 * (`number:code;number:code`). An event set delivers each of them once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

#define POLL_MILLISECONDS 5

struct nvmlEventSet_st {
    pthread_mutex_t lock;
    bool registered[MAX_GPUS];
    unsigned long long delivered[MAX_GPUS]; /* number of the last delivered XID */
    bool loss_reported[MAX_GPUS];
};

NVML_API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    struct call call;
    nvmlReturn_t result = call_begin(&call);
    if (result != NVML_SUCCESS)
        return result;
    call_end(&call);
    *set = calloc(1, sizeof **set);
    if (!*set)
        return NVML_ERROR_MEMORY;
    pthread_mutex_init(&(*set)->lock, NULL);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_destroy(&set->lock);
    free(set);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                               nvmlEventSet_t set) {
    struct call call;
    unsigned long long supported;
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    result = call_ull(&call, "event_types", &supported);
    if (result == NVML_SUCCESS && (types & ~supported))
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS && (types & NVML_EVENT_XID)) {
        pthread_mutex_lock(&set->lock);
        set->registered[device->slot] = true;
        pthread_mutex_unlock(&set->lock);
    }
    call_end(&call);
    return result;
}

/* Delivers the next XID of GPU `slot`; false if there is none. */
static bool take_xid(nvmlEventSet_t set, const struct state *state, int slot, unsigned long long *code) {
    char key[32];
    snprintf(key, sizeof key, "gpu%d.xids", slot);
    const char *at = state_get(state, key);
    while (at && *at) {
        char *end;
        unsigned long long number = strtoull(at, &end, 10);
        *code = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
        if (number > set->delivered[slot]) {
            set->delivered[slot] = number;
            return true;
        }
        at = *end == ';' ? end + 1 : NULL;
    }
    return false;
}

static nvmlReturn_t next_event(nvmlEventSet_t set, const struct state *state, nvmlEventData_t *event) {
    nvmlReturn_t result = NVML_ERROR_TIMEOUT;
    pthread_mutex_lock(&set->lock);
    for (int slot = 0; slot < MAX_GPUS && result == NVML_ERROR_TIMEOUT; slot++) {
        char key[32];
        unsigned long long code;
        if (!set->registered[slot])
            continue;
        if (take_xid(set, state, slot, &code)) {
            *event = (nvmlEventData_t){gpu_handle(slot), NVML_EVENT_XID, code, NVML_NO_INSTANCE,
                                       NVML_NO_INSTANCE};
            result = NVML_SUCCESS;
            continue;
        }
        snprintf(key, sizeof key, "gpu%d.fault", slot);
        const char *fault = state_get(state, key);
        bool lost = fault && strcmp(fault, "lost") == 0;
        if (lost && !set->loss_reported[slot])
            result = NVML_ERROR_GPU_IS_LOST;
        set->loss_reported[slot] = lost;
    }
    pthread_mutex_unlock(&set->lock);
    return result;
}

static nvmlReturn_t wait_for_event(nvmlEventSet_t set, nvmlEventData_t *event, unsigned int milliseconds) {
    unsigned long long end = now_microseconds() + milliseconds * 1000ull;
    if (!set || !event)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (;;) {
        struct call call;
        nvmlReturn_t result = call_begin(&call);
        if (result != NVML_SUCCESS)
            return result;
        result = next_event(set, call.state, event);
        call_end(&call);
        if (result != NVML_ERROR_TIMEOUT || now_microseconds() >= end)
            return result;
        sleep_milliseconds(POLL_MILLISECONDS);
    }
}

NVML_API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event,
                                          unsigned int milliseconds) {
    return wait_for_event(set, event, milliseconds);
}

NVML_API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *event,
                                       unsigned int milliseconds) {
    nvmlEventData_t whole;
    nvmlReturn_t result = wait_for_event(set, &whole, milliseconds);
    if (result == NVML_SUCCESS)
        *event = (nvmlEventData_v1_t){whole.device, whole.eventType, whole.eventData};
    return result;
}
