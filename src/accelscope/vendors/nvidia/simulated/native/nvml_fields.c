/* nvmlDeviceGetFieldValues: many values in one call, each with its own type and return code. */
#include <stdio.h>
#include <stdlib.h>

#include "state.h"

static void read_field(const struct call *call, nvmlFieldValue_t *field) {
    char key[64];
    const char *text = NULL;
    field->timestamp = (long long)now_microseconds();
    field->latencyUsec = 0;
    snprintf(key, sizeof key, "field.%u.%u", field->fieldId, field->scopeId);
    field->nvmlReturn = call_text(call, key, &text);
    if (!text) { /* a field of the whole device, without a scope */
        snprintf(key, sizeof key, "field.%u", field->fieldId);
        field->nvmlReturn = call_text(call, key, &text);
    }
    if (field->nvmlReturn != NVML_SUCCESS)
        return;
    switch (text[0]) { /* the first letter is the type, the rest the number */
    case 'u':
        field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        field->value.uiVal = (unsigned int)strtoul(text + 1, NULL, 10);
        break;
    case 's':
        field->valueType = NVML_VALUE_TYPE_SIGNED_INT;
        field->value.siVal = atoi(text + 1);
        break;
    default:
        field->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        field->value.ullVal = strtoull(text + 1, NULL, 10);
    }
}

NVML_API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    struct call call;
    if (count < 1 || !values)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = call_begin_device(&call, device);
    if (result != NVML_SUCCESS)
        return result;
    for (int i = 0; i < count; i++)
        read_field(&call, &values[i]);
    call_end(&call);
    return NVML_SUCCESS;
}
