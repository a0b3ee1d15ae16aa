/* GPU performance monitoring: activity between two samples.
 *
 * The state has `now:sum` for each metric: the current value and its integral over simulated time. The mean
 * between two samples is the difference of the sums divided by the difference of the times. If both samples
 * have the same time, it is the current value. Numbers are fixed point, in millionths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

#define MILLION 1000000.0
#define MAX_METRICS 128 /* above all metric ids of the simulated cards */

struct nvmlGpmSample_st {
    bool taken;
    long long at; /* simulated time, microseconds */
    bool present[MAX_METRICS];
    long long now[MAX_METRICS], sum[MAX_METRICS];
};

NVML_API nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support) {
    struct call call;
    if (support->version != 1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    support->isSupportedDevice = call_uint_or(&call, "gpm.supported", 0);
    call_end(&call);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample) {
    *sample = calloc(1, sizeof **sample);
    return *sample ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

NVML_API nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    free(sample);
    return NVML_SUCCESS;
}

static nvmlReturn_t take_sample(nvmlDevice_t device, const char *owner, nvmlGpmSample_t sample) {
    struct call call;
    const char *text;
    char key[64];
    if (!sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    if (call_uint_or(&call, "gpm.supported", 0) == 0)
        result = NVML_ERROR_NOT_SUPPORTED;
    memset(sample, 0, sizeof *sample);
    for (unsigned int metric = 1; metric < MAX_METRICS && result == NVML_SUCCESS; metric++) {
        snprintf(key, sizeof key, "%sgpm.%u", owner, metric);
        if (call_text(&call, key, &text) != NVML_SUCCESS)
            continue;
        char *colon;
        sample->present[metric] = true;
        sample->now[metric] = strtoll(text, &colon, 10);
        sample->sum[metric] = *colon == ':' ? strtoll(colon + 1, NULL, 10) : 0;
        sample->taken = true;
    }
    const char *at = state_get(call.state, "system.time_us");
    sample->at = at ? atoll(at) : 0;
    if (result == NVML_SUCCESS && !sample->taken)
        result = NVML_ERROR_INVALID_ARGUMENT; /* no such GPU instance */
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
    return take_sample(device, "", sample);
}

NVML_API nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gpu_instance,
                                          nvmlGpmSample_t sample) {
    char owner[32];
    snprintf(owner, sizeof owner, "gi%u.", gpu_instance);
    return take_sample(device, owner, sample);
}

NVML_API nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *request) {
    if (request->version != 1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlGpmSample_t first = request->sample1, second = request->sample2;
    if (!first || !second || !first->taken || !second->taken)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < request->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &request->metrics[i];
        unsigned int id = metric->metricId;
        if (id >= MAX_METRICS || !first->present[id] || !second->present[id]) {
            metric->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
            continue;
        }
        double elapsed = (double)(second->at - first->at) / MILLION;
        metric->nvmlReturn = NVML_SUCCESS;
        metric->value = elapsed > 0 ? (double)(second->sum[id] - first->sum[id]) / MILLION / elapsed
                                    : (double)second->now[id] / MILLION;
    }
    return NVML_SUCCESS;
}
