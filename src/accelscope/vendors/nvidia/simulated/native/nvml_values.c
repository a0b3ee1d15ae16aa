/* Calls that return one or two plain values. The table maps calls to keys. */
#include <stdio.h>
#include <stdlib.h>

#include "state.h"

static nvmlReturn_t one_uint(nvmlDevice_t device, const char *key, unsigned int *value) {
    struct call call;
    nvmlReturn_t result;
    if (!value)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((result = call_begin_device(&call, device)) != NVML_SUCCESS)
        return result;
    result = call_uint(&call, key, value);
    call_end(&call);
    return result;
}

static nvmlReturn_t one_ull(nvmlDevice_t device, const char *key, unsigned long long *value) {
    struct call call;
    nvmlReturn_t result;
    if (!value)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((result = call_begin_device(&call, device)) != NVML_SUCCESS)
        return result;
    result = call_ull(&call, key, value);
    call_end(&call);
    return result;
}

static nvmlReturn_t two_uints(nvmlDevice_t device, const char *first_key, unsigned int *first,
                              const char *second_key, unsigned int *second) {
    struct call call;
    nvmlReturn_t result;
    if (!first || !second)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((result = call_begin_device(&call, device)) != NVML_SUCCESS)
        return result;
    result = call_uint(&call, first_key, first);
    if (result == NVML_SUCCESS)
        result = call_uint(&call, second_key, second);
    call_end(&call);
    return result;
}

#define UINT(function, key)                                                                                    \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned int *value) {                                 \
        return one_uint(device, key, value);                                                                   \
    }

#define ULL(function, key)                                                                                     \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned long long *value) {                           \
        return one_ull(device, key, value);                                                                    \
    }

/* The key contains the argument: clock.0, temperature.0, link3.state. */
#define UINT_OF(function, key_format)                                                                          \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned int which, unsigned int *value) {             \
        char key[48];                                                                                          \
        snprintf(key, sizeof key, key_format, which);                                                          \
        return one_uint(device, key, value);                                                                   \
    }

#define UINT_OF_TWO(function, key_format)                                                                      \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned int which, unsigned int what,                 \
                                   unsigned int *value) {                                                      \
        char key[48];                                                                                          \
        snprintf(key, sizeof key, key_format, which, what);                                                    \
        return one_uint(device, key, value);                                                                   \
    }

#define ULL_OF_TWO(function, key_format)                                                                       \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned int which, unsigned int what,                 \
                                   unsigned long long *value) {                                                \
        char key[48];                                                                                          \
        snprintf(key, sizeof key, key_format, which, what);                                                    \
        return one_ull(device, key, value);                                                                    \
    }

#define PAIR(function, first_key, second_key)                                                                  \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned int *first, unsigned int *second) {           \
        return two_uints(device, first_key, first, second_key, second);                                        \
    }

UINT(nvmlDeviceGetMinorNumber, "minor_number")
UINT(nvmlDeviceGetBoardId, "board_id")
UINT(nvmlDeviceGetMultiGpuBoard, "multi_gpu_board")
UINT(nvmlDeviceGetModuleId, "module_id")
UINT(nvmlDeviceGetBrand, "brand")
UINT(nvmlDeviceGetArchitecture, "architecture")
UINT(nvmlDeviceGetNumGpuCores, "cores")
UINT(nvmlDeviceGetMemoryBusWidth, "memory_bus_width")
UINT(nvmlDeviceGetIrqNum, "irq")
UINT(nvmlDeviceGetNumaNodeId, "numa_node")
UINT(nvmlDeviceGetBusType, "bus_type")
UINT(nvmlDeviceGetPersistenceMode, "persistence_mode")
UINT(nvmlDeviceGetComputeMode, "compute_mode")
UINT(nvmlDeviceGetPerformanceState, "pstate")
UINT(nvmlDeviceGetPowerState, "pstate")
UINT(nvmlDeviceGetDisplayMode, "display_mode")
UINT(nvmlDeviceGetDisplayActive, "display_active")
UINT(nvmlDeviceGetInforomConfigurationChecksum, "inforom.checksum")
UINT(nvmlDeviceGetDefaultEccMode, "ecc.mode.default")
UINT(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.gen")
UINT(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.max_gen")
UINT(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie.max_gen")
UINT(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
UINT(nvmlDeviceGetMaxPcieLinkWidth, "pcie.max_width")
UINT(nvmlDeviceGetPcieLinkMaxSpeed, "pcie.max_speed")
UINT(nvmlDeviceGetPcieSpeed, "pcie.speed_mbps")
UINT(nvmlDeviceGetPcieReplayCounter, "pcie.replays")
UINT(nvmlDeviceGetPowerUsage, "power.average_mw")
UINT(nvmlDeviceGetPowerManagementMode, "power.managed")
UINT(nvmlDeviceGetPowerManagementLimit, "power.limit_mw")
UINT(nvmlDeviceGetPowerManagementDefaultLimit, "power.default_mw")
UINT(nvmlDeviceGetEnforcedPowerLimit, "power.enforced_mw")
UINT(nvmlDeviceGetPowerSource, "power.source")
UINT(nvmlDeviceGetFanSpeed, "fan.0.percent")
UINT(nvmlDeviceGetNumFans, "fan.count")
UINT(nvmlDeviceGetAdaptiveClockInfoStatus, "adaptive_clock")
UINT(nvmlDeviceGetAccountingMode, "accounting.mode")
UINT(nvmlDeviceGetAccountingBufferSize, "accounting.buffer_size")
UINT(nvmlDeviceGetRetiredPagesPendingStatus, "retired.pending")
UINT(nvmlDeviceGetMaxMigDeviceCount, "mig.max_devices")
UINT(nvmlDeviceGetGpuInstanceId, "gpu_instance_id")
UINT(nvmlDeviceGetComputeInstanceId, "compute_instance_id")

ULL(nvmlDeviceGetTotalEnergyConsumption, "energy_mj")
ULL(nvmlDeviceGetCurrentClocksThrottleReasons, "clocks_event_reasons")
ULL(nvmlDeviceGetCurrentClocksEventReasons, "clocks_event_reasons")
ULL(nvmlDeviceGetSupportedClocksThrottleReasons, "clocks_event_reasons_supported")
ULL(nvmlDeviceGetSupportedClocksEventReasons, "clocks_event_reasons_supported")
ULL(nvmlDeviceGetSupportedEventTypes, "event_types")

UINT_OF(nvmlDeviceGetTemperature, "temperature.%u")
UINT_OF(nvmlDeviceGetTemperatureThreshold, "temperature.threshold.%u")
UINT_OF(nvmlDeviceGetClockInfo, "clock.%u")
UINT_OF(nvmlDeviceGetMaxClockInfo, "clock.max.%u")
UINT_OF(nvmlDeviceGetApplicationsClock, "clock.applications.%u")
UINT_OF(nvmlDeviceGetDefaultApplicationsClock, "clock.applications.%u")
UINT_OF(nvmlDeviceGetMaxCustomerBoostClock, "clock.max.%u")
UINT_OF(nvmlDeviceGetFanSpeed_v2, "fan.%u.percent")
UINT_OF(nvmlDeviceGetTargetFanSpeed, "fan.%u.percent")
UINT_OF(nvmlDeviceGetFanControlPolicy_v2, "fan.%u.policy")
UINT_OF(nvmlDeviceGetNvLinkState, "link%u.state")
UINT_OF(nvmlDeviceGetNvLinkVersion, "link%u.version")
UINT_OF(nvmlDeviceGetNvLinkRemoteDeviceType, "link%u.remote_type")
UINT_OF(nvmlDeviceGetEncoderCapacity, "encoder.capacity.%u")

UINT_OF_TWO(nvmlDeviceGetClock, "clock.id.%u.%u")
UINT_OF_TWO(nvmlDeviceGetNvLinkCapability, "link%u.capability.%u")

ULL_OF_TWO(nvmlDeviceGetNvLinkErrorCounter, "link%u.errors.%u")
ULL_OF_TWO(nvmlDeviceGetTotalEccErrors, "ecc.%u.%u.total")

PAIR(nvmlDeviceGetEncoderUtilization, "encoder.utilization", "sampling_period_us")
PAIR(nvmlDeviceGetDecoderUtilization, "decoder.utilization", "sampling_period_us")
PAIR(nvmlDeviceGetJpgUtilization, "jpeg.utilization", "sampling_period_us")
PAIR(nvmlDeviceGetOfaUtilization, "ofa.utilization", "sampling_period_us")
PAIR(nvmlDeviceGetMigMode, "mig.mode", "mig.mode")
PAIR(nvmlDeviceGetEccMode, "ecc.mode.current", "ecc.mode.pending")
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, "power.min_mw", "power.max_mw")
PAIR(nvmlDeviceGetGspFirmwareMode, "gsp.enabled", "gsp.enabled")
PAIR(nvmlDeviceGetMinMaxFanSpeed, "fan.min_percent", "fan.max_percent")

NVML_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    return two_uints(device, "cuda.major", (unsigned int *)major, "cuda.minor", (unsigned int *)minor);
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned int error,
                                                      unsigned int counter, unsigned int location,
                                                      unsigned long long *value) {
    char key[48];
    snprintf(key, sizeof key, "ecc.%u.%u.%u", error, counter, location);
    return one_ull(device, key, value);
}

/* The driver measures for a fixed time while the caller waits. */
NVML_API nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter,
                                                  unsigned int *kilobytes_per_second) {
    char key[48];
    struct call call;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(key, sizeof key, "pcie.throughput.%u", counter);
    result = call_uint(&call, key, kilobytes_per_second);
    const char *window = state_get(call.state, "system.pcie_window_ms");
    unsigned int milliseconds = window ? (unsigned int)atoi(window) : 0;
    call_end(&call);
    if (result == NVML_SUCCESS)
        sleep_milliseconds(milliseconds);
    return result;
}
