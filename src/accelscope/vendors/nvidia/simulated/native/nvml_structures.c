/* Calls that return a structure or several values. */
#include <stdio.h>
#include <string.h>

#include "state.h"

NVML_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    result = call_uint(&call, "utilization.gpu", &utilization->gpu);
    if (result == NVML_SUCCESS)
        result = call_uint(&call, "utilization.memory", &utilization->memory);
    call_end(&call);
    return result;
}

static nvmlReturn_t read_memory(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    if ((result = call_ull(&call, "memory.total", &memory->total)) == NVML_SUCCESS &&
        (result = call_ull(&call, "memory.reserved", &memory->reserved)) == NVML_SUCCESS &&
        (result = call_ull(&call, "memory.used", &memory->used)) == NVML_SUCCESS)
        memory->free = memory->total - memory->reserved - memory->used;
    call_end(&call);
    return result;
}

/* The first version has no reserved memory and counts it as used. */
NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    nvmlMemory_v2_t whole;
    nvmlReturn_t result = read_memory(device, &whole);
    if (result == NVML_SUCCESS)
        *memory = (nvmlMemory_t){whole.total, whole.free, whole.used + whole.reserved};
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    if (memory->version != NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return read_memory(device, memory);
}

NVML_API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory) {
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    if ((result = call_ull(&call, "bar1.total", &memory->bar1Total)) == NVML_SUCCESS &&
        (result = call_ull(&call, "bar1.used", &memory->bar1Used)) == NVML_SUCCESS)
        memory->bar1Free = memory->bar1Total - memory->bar1Used;
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *temperature) {
    char key[48];
    struct call call;
    if (temperature->version != NVML_STRUCT_VERSION(nvmlTemperature_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(key, sizeof key, "temperature.%u", temperature->sensorType);
    result = call_uint(&call, key, (unsigned int *)&temperature->temperature);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_v1_t *margin) {
    struct call call;
    if (margin->version != NVML_STRUCT_VERSION(nvmlMarginTemperature_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    result = call_uint(&call, "temperature.margin", (unsigned int *)&margin->marginTemperature);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetThermalSettings(nvmlDevice_t device, unsigned int index,
                                                   nvmlGpuThermalSettings_t *settings) {
    enum { GPU_INTERNAL = 1, TARGET_GPU = 1 };
    struct call call;
    unsigned int celsius;
    (void)index;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    result = call_uint(&call, "temperature.0", &celsius);
    if (result == NVML_SUCCESS) {
        memset(settings, 0, sizeof *settings);
        settings->count = 1;
        settings->sensor[0].controller = GPU_INTERNAL;
        settings->sensor[0].defaultMaxTemp = (int)call_uint_or(&call, "temperature.threshold.1", 0);
        settings->sensor[0].currentTemp = (int)celsius;
        settings->sensor[0].target = TARGET_GPU;
    }
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetFanSpeedRPM(nvmlDevice_t device, nvmlFanSpeedInfo_t *fan) {
    char key[48];
    struct call call;
    if (fan->version != NVML_STRUCT_VERSION(nvmlFanSpeedInfo_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(key, sizeof key, "fan.%u.rpm", fan->fan);
    result = call_uint(&call, key, &fan->speed);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, unsigned int policy,
                                                   nvmlViolationTime_t *violation) {
    char key[48];
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(key, sizeof key, "violation.%u", policy);
    result = call_ull(&call, key, &violation->violationTime); /* nanoseconds */
    violation->referenceTime = now_microseconds();
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t device, nvmlGpuDynamicPstatesInfo_t *info) {
    static const char *const keys[] = {"utilization.gpu", "utilization.memory", "decoder.utilization"};
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    memset(info, 0, sizeof *info);
    for (size_t domain = 0; domain < sizeof keys / sizeof *keys; domain++) {
        unsigned int percentage;
        if (call_uint(&call, keys[domain], &percentage) == NVML_SUCCESS) {
            info->utilization[domain].bIsPresent = 1;
            info->utilization[domain].percentage = percentage;
        }
    }
    call_end(&call);
    return result;
}

/* --- MIG, encoders, fabric, affinity --- */

NVML_API nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    struct {
        const char *key;
        unsigned int *value;
    } wanted[] = {
        {"attribute.multiprocessors", &attributes->multiprocessorCount},
        {"attribute.copy_engines", &attributes->sharedCopyEngineCount},
        {"attribute.decoders", &attributes->sharedDecoderCount},
        {"attribute.encoders", &attributes->sharedEncoderCount},
        {"attribute.jpegs", &attributes->sharedJpegCount},
        {"attribute.ofas", &attributes->sharedOfaCount},
        {"attribute.gpu_slices", &attributes->gpuInstanceSliceCount},
        {"attribute.compute_slices", &attributes->computeInstanceSliceCount},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && result == NVML_SUCCESS; i++)
        result = call_uint(&call, wanted[i].key, wanted[i].value);
    if (result == NVML_SUCCESS)
        result = call_ull(&call, "attribute.memory_mb", &attributes->memorySizeMB);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
    return nvmlDeviceGetAttributes_v2(device, attributes);
}

static nvmlReturn_t no_sessions(nvmlDevice_t device, unsigned int *count, unsigned int *fps,
                                unsigned int *latency) {
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    *count = 0;
    if (fps)
        *fps = 0;
    if (latency)
        *latency = 0;
    call_end(&call);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *sessions, unsigned int *fps,
                                                unsigned int *latency) {
    return no_sessions(device, sessions, fps, latency);
}

NVML_API nvmlReturn_t nvmlDeviceGetEncoderSessions(nvmlDevice_t device, unsigned int *count, void *sessions) {
    (void)sessions;
    return no_sessions(device, count, NULL, NULL);
}

NVML_API nvmlReturn_t nvmlDeviceGetFBCStats(nvmlDevice_t device, unsigned int *stats) {
    return no_sessions(device, &stats[0], &stats[1], &stats[2]);
}

NVML_API nvmlReturn_t nvmlDeviceGetFBCSessions(nvmlDevice_t device, unsigned int *count, void *sessions) {
    (void)sessions;
    return no_sessions(device, count, NULL, NULL);
}

NVML_API nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids) {
    (void)pids;
    return no_sessions(device, count, NULL, NULL);
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info) {
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    memset(info, 0, sizeof *info);
    result = call_uint(&call, "fabric.state", &info->state);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *info) {
    struct call call;
    unsigned int version = info->version;
    size_t size = version == NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2)   ? sizeof(nvmlGpuFabricInfo_v2_t)
                  : version == NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v3_t, 3) ? sizeof(nvmlGpuFabricInfo_v3_t)
                                                                              : 0;
    if (size == 0)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    memset(info, 0, size);
    info->version = version;
    result = call_uint(&call, "fabric.state", &info->state);
    call_end(&call);
    return result;
}

static nvmlReturn_t affinity(nvmlDevice_t device, const char *key, unsigned int words, unsigned long *set) {
    struct call call;
    unsigned long long mask;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    result = words == 0 || !set ? NVML_ERROR_INVALID_ARGUMENT : call_ull(&call, key, &mask);
    if (result == NVML_SUCCESS) {
        memset(set, 0, words * sizeof *set);
        set[0] = (unsigned long)mask;
    }
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set) {
    return affinity(device, "cpu_affinity", words, set);
}

NVML_API nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words,
                                                          unsigned long *set, unsigned int scope) {
    (void)scope;
    return affinity(device, "cpu_affinity", words, set);
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set,
                                                  unsigned int scope) {
    (void)scope;
    return affinity(device, "memory_affinity", words, set);
}

NVML_API nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int *count,
                                                         unsigned int *clocks) {
    struct call call;
    unsigned int clock;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    result = call_uint(&call, "clock.max.2", &clock);
    if (result == NVML_SUCCESS) {
        unsigned int room = *count;
        *count = 1;
        if (room < 1 || !clocks)
            result = NVML_ERROR_INSUFFICIENT_SIZE;
        else
            clocks[0] = clock;
    }
    call_end(&call);
    return result;
}

/* The old NVLink counters: pairs, receive first. nvmlDeviceGetFieldValues replaces them. */
NVML_API nvmlReturn_t nvmlDeviceGetNvLinkUtilizationCounter(nvmlDevice_t device, unsigned int link,
                                                            unsigned int counter, unsigned long long *receive,
                                                            unsigned long long *transmit) {
    char key[48];
    struct call call;
    (void)counter;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(key, sizeof key, "link%u.receive_kib", link);
    result = call_ull(&call, key, receive);
    snprintf(key, sizeof key, "link%u.transmit_kib", link);
    if (result == NVML_SUCCESS)
        result = call_ull(&call, key, transmit);
    call_end(&call);
    return result;
}
