/* Processes on a device.
 *
 * The state has one line per GPU and MIG device: records separated by `;`, their parts by `:`, and `-` for a
 * value that is not available:  pid:types:bytes:gpu instance:compute instance:sm:mem:enc:dec:jpg:ofa */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

enum { COMPUTE = 1, GRAPHICS = 2, MPS = 4 };

struct process {
    unsigned int pid, types, gpu_instance, compute_instance;
    unsigned long long bytes;
    bool sampled; /* whether it ran during the driver's sampling period */
    unsigned int sm, memory, encoder, decoder, jpeg, ofa;
};

static unsigned long long next_number(const char **at, unsigned long long otherwise) {
    unsigned long long value = otherwise;
    if (**at == '-') {
        ++*at;
    } else {
        char *end;
        value = strtoull(*at, &end, 10);
        *at = end;
    }
    if (**at == ':')
        ++*at;
    return value;
}

/* Reads the record at `*at` and advances to the next; false at the end. */
static bool next_process(const char **at, struct process *process) {
    if (**at == '\0')
        return false;
    process->pid = (unsigned int)next_number(at, 0);
    process->types = (unsigned int)next_number(at, 0);
    process->bytes = next_number(at, NVML_VALUE_NOT_AVAILABLE_ULL);
    process->gpu_instance = (unsigned int)next_number(at, NVML_NO_INSTANCE);
    process->compute_instance = (unsigned int)next_number(at, NVML_NO_INSTANCE);
    process->sampled = **at != '-';
    process->sm = (unsigned int)next_number(at, 0);
    process->memory = (unsigned int)next_number(at, 0);
    process->encoder = (unsigned int)next_number(at, 0);
    process->decoder = (unsigned int)next_number(at, 0);
    process->jpeg = (unsigned int)next_number(at, 0);
    process->ofa = (unsigned int)next_number(at, 0);
    if (**at == ';')
        ++*at;
    return true;
}

enum layout { LAYOUT_V1, LAYOUT_V2, LAYOUT_DETAIL };

static void put(void *array, unsigned int at, enum layout layout, const struct process *process) {
    switch (layout) {
    case LAYOUT_V1:
        ((nvmlProcessInfo_v1_t *)array)[at] = (nvmlProcessInfo_v1_t){process->pid, process->bytes};
        break;
    case LAYOUT_V2:
        ((nvmlProcessInfo_v2_t *)array)[at] = (nvmlProcessInfo_v2_t){
            process->pid, process->bytes, process->gpu_instance, process->compute_instance};
        break;
    case LAYOUT_DETAIL:
        ((nvmlProcessDetail_v1_t *)array)[at] = (nvmlProcessDetail_v1_t){
            process->pid, process->bytes, process->gpu_instance, process->compute_instance, 0};
        break;
    }
}

/* `*count` is the capacity on entry and the number of processes on return, even if they do not fit. */
static nvmlReturn_t list_processes(nvmlDevice_t device, unsigned int types, enum layout layout,
                                   unsigned int *count, void *array) {
    struct call call;
    struct process process;
    const char *at;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    result = call_text(&call, "processes", &at);
    if (result == NVML_SUCCESS) {
        unsigned int room = array ? *count : 0, found = 0;
        while (next_process(&at, &process)) {
            if (!(process.types & types))
                continue;
            if (found < room)
                put(array, found, layout, &process);
            found++;
        }
        *count = found;
        if (found > room)
            result = NVML_ERROR_INSUFFICIENT_SIZE;
    }
    call_end(&call);
    return result;
}

#define LISTS(name, types)                                                                                     \
    NVML_API nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *array) {        \
        return list_processes(device, types, LAYOUT_V1, count, array);                                         \
    }                                                                                                          \
    NVML_API nvmlReturn_t name##_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *array) {   \
        return list_processes(device, types, LAYOUT_V2, count, array);                                         \
    }                                                                                                          \
    NVML_API nvmlReturn_t name##_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *array) {   \
        return list_processes(device, types, LAYOUT_V2, count, array);                                         \
    }

LISTS(nvmlDeviceGetComputeRunningProcesses, COMPUTE)
LISTS(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses, MPS)

NVML_API nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                            nvmlProcessDetailList_v1_t *list) {
    static const unsigned int types[] = {COMPUTE, GRAPHICS, MPS};
    if (list->version != NVML_STRUCT_VERSION(nvmlProcessDetailList_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (list->mode >= sizeof types / sizeof *types)
        return NVML_ERROR_INVALID_ARGUMENT;
    return list_processes(device, types[list->mode], LAYOUT_DETAIL, &list->numProcArrayEntries,
                          list->procArray);
}

/* --- Utilisation of processes ---
 * The newest sample always has the current time: the state has no history, and callers request samples
 * that are newer than a time of their own clock. */

static nvmlReturn_t sample_processes(nvmlDevice_t device, const char *permission, unsigned long long last_seen,
                                     unsigned int *count, nvmlProcessUtilizationSample_t *samples,
                                     nvmlProcessUtilizationInfo_v1_t *infos) {
    struct call call;
    struct process process;
    const char *at;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    if ((result = call_text(&call, permission, &at)) == NVML_SUCCESS)
        result = call_text(&call, "processes", &at);
    if (result == NVML_SUCCESS) {
        unsigned long long now = now_microseconds();
        unsigned int room = samples || infos ? *count : 0, found = 0;
        while (now > last_seen && next_process(&at, &process)) {
            if (!process.sampled)
                continue;
            if (found < room && samples)
                samples[found] = (nvmlProcessUtilizationSample_t){
                    process.pid, now, process.sm, process.memory, process.encoder, process.decoder};
            if (found < room && infos)
                infos[found] = (nvmlProcessUtilizationInfo_v1_t){now,
                                                                 process.pid,
                                                                 process.sm,
                                                                 process.memory,
                                                                 process.encoder,
                                                                 process.decoder,
                                                                 process.jpeg,
                                                                 process.ofa};
            found++;
        }
        *count = found;
        if (found == 0)
            result = NVML_ERROR_NOT_FOUND;
        else if (found > room)
            result = NVML_ERROR_INSUFFICIENT_SIZE;
    }
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                      nvmlProcessUtilizationSample_t *samples,
                                                      unsigned int *count, unsigned long long last_seen) {
    return sample_processes(device, "process_utilization", last_seen, count, samples, NULL);
}

NVML_API nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                            nvmlProcessesUtilizationInfo_v1_t *info) {
    if (info->version != NVML_STRUCT_VERSION(nvmlProcessesUtilizationInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return sample_processes(device, "processes_utilization_info", info->lastSeenTimeStamp,
                            &info->processSamplesCount, NULL, info->procUtilArray);
}
