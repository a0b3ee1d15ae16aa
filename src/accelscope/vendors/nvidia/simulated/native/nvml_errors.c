/* Memory errors: ECC counters, remapped rows, retired pages. */
#include <stdio.h>
#include <string.h>

#include "state.h"

NVML_API nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, unsigned int error,
                                                     unsigned int counter, nvmlEccErrorCounts_t *counts) {
    enum { DEVICE_MEMORY = 2 };
    char key[48];
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    memset(counts, 0, sizeof *counts);
    snprintf(key, sizeof key, "ecc.%u.%u.%u", error, counter, DEVICE_MEMORY);
    result = call_ull(&call, key, &counts->deviceMemory);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_v1_t *status) {
    enum { CORRECTED = 0, UNCORRECTED = 1, VOLATILE = 0, AGGREGATE = 1, SRAM = 7 };
    struct call call;
    char key[48];
    if (status->version != NVML_STRUCT_VERSION(nvmlEccSramErrorStatus_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    struct {
        unsigned int error, counter;
        unsigned long long *value;
    } wanted[] = {
        {CORRECTED, VOLATILE, &status->volatileCor},
        {CORRECTED, AGGREGATE, &status->aggregateCor},
        {UNCORRECTED, VOLATILE, &status->volatileUncSecDed},
        {UNCORRECTED, AGGREGATE, &status->aggregateUncSecDed},
    };
    unsigned int version = status->version;
    memset(status, 0, sizeof *status);
    status->version = version;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && result == NVML_SUCCESS; i++) {
        snprintf(key, sizeof key, "ecc.%u.%u.%u", wanted[i].error, wanted[i].counter, SRAM);
        result = call_ull(&call, key, wanted[i].value);
    }
    status->aggregateUncBucketSm = status->aggregateUncSecDed;
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
                                                unsigned int *uncorrectable, unsigned int *pending,
                                                unsigned int *failed) {
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    if ((result = call_uint(&call, "remapped.correctable", correctable)) == NVML_SUCCESS &&
        (result = call_uint(&call, "remapped.uncorrectable", uncorrectable)) == NVML_SUCCESS &&
        (result = call_uint(&call, "remapped.pending", pending)) == NVML_SUCCESS)
        result = call_uint(&call, "remapped.failed", failed);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
                                                        nvmlRowRemapperHistogramValues_t *values) {
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    memset(values, 0, sizeof *values);
    if ((result = call_uint(&call, "remapped.banks.max", &values->max)) == NVML_SUCCESS)
        result = call_uint(&call, "remapped.banks.high", &values->high);
    call_end(&call);
    return result;
}

static nvmlReturn_t retired_pages(nvmlDevice_t device, unsigned int cause, unsigned int *count,
                                  unsigned long long *addresses, unsigned long long *times) {
    char key[48];
    struct call call;
    unsigned int pages;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(key, sizeof key, "retired.%u", cause);
    result = call_uint(&call, key, &pages);
    if (result == NVML_SUCCESS) {
        unsigned int room = *count;
        *count = pages;
        if (pages > room || (pages > 0 && !addresses)) {
            result = NVML_ERROR_INSUFFICIENT_SIZE;
        } else {
            for (unsigned int page = 0; page < pages; page++) {
                addresses[page] = 0x100000ull + page;
                if (times)
                    times[page] = 0;
            }
        }
    }
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned int cause, unsigned int *count,
                                                unsigned long long *addresses) {
    return retired_pages(device, cause, count, addresses, NULL);
}

NVML_API nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned int cause, unsigned int *count,
                                                   unsigned long long *addresses, unsigned long long *times) {
    return retired_pages(device, cause, count, addresses, times);
}
