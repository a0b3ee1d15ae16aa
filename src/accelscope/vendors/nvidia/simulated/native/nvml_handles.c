/* Device handles by index, uuid and address, and the identity of a handle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "state.h"

static int slot_at_index(const struct call *call, unsigned int index) {
    char key[32];
    unsigned int slot;
    snprintf(key, sizeof key, "index.%u", index);
    return call_uint(call, key, &slot) == NVML_SUCCESS ? (int)slot : -1;
}

static nvmlReturn_t gpu_state(const struct call *call, int slot) {
    char key[32];
    snprintf(key, sizeof key, "gpu%d.fault", slot);
    const char *fault = state_get(call->state, key);
    return fault && strcmp(fault, "lost") == 0 ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    struct call call;
    nvmlReturn_t result = call_begin(&call);
    if (result != NVML_SUCCESS)
        return result;
    result = call_uint(&call, "system.count", count);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) { return nvmlDeviceGetCount_v2(count); }

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    struct call call;
    nvmlReturn_t result = call_begin(&call);
    if (result != NVML_SUCCESS)
        return result;
    int slot = slot_at_index(&call, index);
    result = slot < 0 ? NVML_ERROR_INVALID_ARGUMENT : gpu_state(&call, slot);
    if (result == NVML_SUCCESS)
        *device = gpu_handle(slot);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* The first handle whose value of `key` is `wanted`, including MIG devices that have the key. */
static nvmlReturn_t find_handle(const char *key, const char *wanted, nvmlDevice_t *device) {
    struct call call;
    nvmlReturn_t result = call_begin(&call);
    if (result != NVML_SUCCESS)
        return result;
    unsigned int count = call_uint_or(&call, "system.count", 0);
    result = NVML_ERROR_NOT_FOUND;
    for (unsigned int index = 0; index < count && result == NVML_ERROR_NOT_FOUND; index++) {
        int slot = slot_at_index(&call, index);
        for (int instance = -1; instance < MAX_INSTANCES && result == NVML_ERROR_NOT_FOUND; instance++) {
            char whole[64];
            if (instance < 0)
                snprintf(whole, sizeof whole, "gpu%d.%s", slot, key);
            else
                snprintf(whole, sizeof whole, "gpu%d.mig%d.%s", slot, instance, key);
            const char *value = state_get(call.state, whole);
            if (!value || strcasecmp(value, wanted) != 0)
                continue;
            result = gpu_state(&call, slot);
            *device = instance < 0 ? gpu_handle(slot) : instance_handle(slot, instance);
        }
    }
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    return uuid ? find_handle("uuid", uuid, device) : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device) {
    enum { ASCII = 1 };
    if (uuid->version != NVML_STRUCT_VERSION(nvmlUUID_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return uuid->type == ASCII ? find_handle("uuid", uuid->value.str, device) : NVML_ERROR_NOT_SUPPORTED;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device) {
    return serial ? find_handle("serial", serial, device) : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *device) {
    unsigned int domain = 0, bus, slot, function = 0;
    char whole[32];
    if (!address)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
        domain = 0;
        if (sscanf(address, "%x:%x.%x", &bus, &slot, &function) < 2)
            return NVML_ERROR_INVALID_ARGUMENT;
    }
    snprintf(whole, sizeof whole, "%08X:%02X:%02X.%X", domain, bus & 0xff, slot & 0xff, function & 0xf);
    return find_handle("pci.bus_id", whole, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *address, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByPciBusId_v2(address, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    struct call call;
    nvmlReturn_t result = call_begin_identity(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    result = NVML_SUCCESS;
    if (device->instance >= 0) {
        *index = (unsigned int)device->instance;
    } else {
        result = call_uint(&call, "index", index);
    }
    call_end(&call);
    return result;
}

static nvmlReturn_t identity_text(nvmlDevice_t device, const char *key, char *buffer, unsigned int length) {
    struct call call;
    const char *text;
    nvmlReturn_t result = call_begin_identity(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    result = call_text(&call, key, &text);
    if (result == NVML_SUCCESS)
        result = copy_text(text, buffer, length);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    return identity_text(device, "name", name, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    return identity_text(device, "uuid", uuid, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length) {
    return identity_text(device, "serial", serial, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length) {
    return identity_text(device, "vbios", version, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char *version,
                                                       unsigned int length) {
    return identity_text(device, "inforom.image", version, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, unsigned int object, char *version,
                                                  unsigned int length) {
    char key[32];
    snprintf(key, sizeof key, "inforom.%u", object);
    return identity_text(device, key, version, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *number, unsigned int length) {
    return identity_text(device, "part_number", number, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version) {
    return identity_text(device, "gsp_firmware", version, 64);
}

/* The numbers of "00000041:18:00.0", for all versions of the PCI information. */
struct address {
    unsigned int domain, bus, device, id, subsystem, class_code;
    char text[32], short_text[16];
};

static nvmlReturn_t read_address(nvmlDevice_t device, const char *key, struct address *address) {
    struct call call;
    const char *text;
    nvmlReturn_t result = call_begin_identity(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    memset(address, 0, sizeof *address);
    result = call_text(&call, key, &text);
    if (result == NVML_SUCCESS) {
        unsigned int function = 0;
        sscanf(text, "%x:%x:%x.%x", &address->domain, &address->bus, &address->device, &function);
        snprintf(address->text, sizeof address->text, "%s", text);
        snprintf(address->short_text, sizeof address->short_text, "%04X:%02X:%02X.%X",
                 address->domain & 0xffff, address->bus & 0xff, address->device & 0xff, function & 0xf);
        if (strcmp(key, "pci.bus_id") == 0) {
            address->id = call_uint_or(&call, "pci.device_id", 0);
            address->subsystem = call_uint_or(&call, "pci.subsystem_id", 0);
            address->class_code = call_uint_or(&call, "pci.class", 0);
        }
    }
    call_end(&call);
    return result;
}

static nvmlReturn_t fill_pci(nvmlDevice_t device, const char *key, nvmlPciInfo_t *pci) {
    struct address address;
    nvmlReturn_t result = read_address(device, key, &address);
    if (result != NVML_SUCCESS)
        return result;
    memset(pci, 0, sizeof *pci);
    memcpy(pci->busIdLegacy, address.short_text, sizeof pci->busIdLegacy);
    memcpy(pci->busId, address.text, sizeof pci->busId);
    pci->domain = address.domain;
    pci->bus = address.bus;
    pci->device = address.device;
    pci->pciDeviceId = address.id;
    pci->pciSubSystemId = address.subsystem;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    return fill_pci(device, "pci.bus_id", pci);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci) {
    struct address address;
    nvmlReturn_t result = read_address(device, "pci.bus_id", &address);
    if (result != NVML_SUCCESS)
        return result;
    memset(pci, 0, sizeof *pci);
    memcpy(pci->busId, address.short_text, sizeof pci->busId);
    pci->domain = address.domain;
    pci->bus = address.bus;
    pci->device = address.device;
    pci->pciDeviceId = address.id;
    pci->pciSubSystemId = address.subsystem;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v2_t *pci) {
    return nvmlDeviceGetPciInfo_v2(device, pci);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *pci) {
    struct address address;
    if (pci->version != NVML_STRUCT_VERSION(nvmlPciInfoExt_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = read_address(device, "pci.bus_id", &address);
    if (result != NVML_SUCCESS)
        return result;
    pci->domain = address.domain;
    pci->bus = address.bus;
    pci->device = address.device;
    pci->pciDeviceId = address.id;
    pci->pciSubSystemId = address.subsystem;
    pci->baseClass = address.class_code >> 8;
    pci->subClass = address.class_code & 0xff;
    memcpy(pci->busId, address.text, sizeof pci->busId);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                          nvmlPciInfo_t *pci) {
    char key[32];
    snprintf(key, sizeof key, "link%u.remote", link);
    return fill_pci(device, key, pci);
}

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
                                                       nvmlPciInfo_t *pci) {
    return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci);
}

NVML_API nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t other, int *same) {
    struct call call;
    nvmlReturn_t result = call_begin_identity(&call, one);
    if (result != NVML_SUCCESS)
        return result;
    *same = one == other;
    call_end(&call);
    return NVML_SUCCESS;
}

/* --- MIG devices --- */

NVML_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                          nvmlDevice_t *instance) {
    struct call call;
    char key[32];
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    unsigned int room = call_uint_or(&call, "mig.max_devices", 0);
    snprintf(key, sizeof key, "mig%u.uuid", index);
    const char *uuid;
    if (device->instance >= 0 || index >= room || index >= MAX_INSTANCES)
        result = room == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    else if (call_text(&call, key, &uuid) != NVML_SUCCESS)
        result = NVML_ERROR_NOT_FOUND;
    else
        *instance = instance_handle(device->slot, (int)index);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance,
                                                                   nvmlDevice_t *device) {
    struct call call;
    nvmlReturn_t result = call_begin_identity(&call, instance);
    if (result != NVML_SUCCESS)
        return result;
    if (instance->instance < 0)
        result = NVML_ERROR_INVALID_ARGUMENT;
    else
        *device = gpu_handle(instance->slot);
    call_end(&call);
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_instance) {
    struct call call;
    nvmlReturn_t result = call_begin_identity(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    *is_instance = device->instance >= 0;
    call_end(&call);
    return NVML_SUCCESS;
}
