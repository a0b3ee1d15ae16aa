/* Opening and closing the library, versions, error texts. */
#include <stdio.h>
#include <string.h>

#include "state.h"

NVML_API nvmlReturn_t nvmlInit_v2(void) { return library_open(); }
NVML_API nvmlReturn_t nvmlInit(void) { return library_open(); }
NVML_API nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    return library_open();
}
NVML_API nvmlReturn_t nvmlShutdown(void) { return library_close(); }

NVML_API const char *nvmlErrorString(nvmlReturn_t result) {
    static const char *const texts[] = {
        "Success",
        "Uninitialized",
        "Invalid Argument",
        "Not Supported",
        "Insufficient Permissions",
        "Already Initialized",
        "Not Found",
        "Insufficient Size",
        "Insufficient External Power",
        "Driver Not Loaded",
        "Timeout",
        "Interrupt Request Issue",
        "NVML Shared Library Not Found",
        "Function Not Found",
        "Corrupted infoROM",
        "GPU is lost",
        "GPU requires reset",
        "GPU access blocked by the operating system",
        "Driver/library version mismatch",
        "In use by another client",
        "Insufficient Memory",
        "No data",
        "vGPU operation not available with ECC enabled",
        "Insufficient Resources",
        "Frequency not supported",
        "Argument version mismatch",
        "Requested functionality has been deprecated",
        "Not Ready",
        "GPU not found",
        "Invalid State",
        "Reset type not supported",
    };
    return result < sizeof texts / sizeof *texts ? texts[result] : "Unknown Error";
}

static nvmlReturn_t system_text(const char *key, char *buffer, unsigned int length) {
    struct call call;
    const char *text;
    nvmlReturn_t result = call_begin(&call);
    if (result != NVML_SUCCESS)
        return result;
    result = call_text(&call, key, &text);
    if (result == NVML_SUCCESS)
        result = copy_text(text, buffer, length);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    return system_text("system.driver_version", version, length);
}

NVML_API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    return system_text("system.nvml_version", version, length);
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    struct call call;
    unsigned int value = 0;
    nvmlReturn_t result = call_begin(&call);
    if (result != NVML_SUCCESS)
        return result;
    result = call_uint(&call, "system.cuda_version", &value);
    call_end(&call);
    *version = (int)value;
    return result;
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

NVML_API nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length) {
    char key[48];
    struct call call;
    const char *text;
    nvmlReturn_t result = call_begin(&call);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(key, sizeof key, "process.%u.name", pid);
    result = call_text(&call, key, &text) == NVML_SUCCESS ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
    if (result == NVML_SUCCESS && length > 0)
        snprintf(name, length, "%s", text); /* like the real one, truncates a long name */
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlUnitGetCount(unsigned int *count) {
    *count = 0;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count) {
    *count = 0;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlSystemGetHicVersion(unsigned int *count, void *entries) {
    (void)entries;
    *count = 0;
    return NVML_SUCCESS;
}
