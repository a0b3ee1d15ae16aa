/* The state of the simulated driver: a text of `key=value` lines that the writer replaces as a whole.
 *
 * A value may be an error (`!NOT_SUPPORTED`, `!GPU_IS_LOST`), which the call then returns. A call whose key
 * is missing returns NVML_ERROR_NOT_SUPPORTED, as on a card without that value. */
#ifndef ACCELSCOPE_STATE_H
#define ACCELSCOPE_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "nvml_types.h"

#define MAX_GPUS 64
#define MAX_INSTANCES 8 /* MIG devices of one GPU; NVIDIA's cards have at most seven */

struct state;

/* A device handle is the address of one of these: a GPU (instance < 0) or one of its MIG devices. `slot` is
 * the GPU's position in the node's description. Unlike its index, it never changes. */
struct nvmlDevice_st {
    int slot, instance;
};

/* A running library call: the state that it reads, and its device. */
struct call {
    const struct state *state;
    const struct nvmlDevice_st *device; /* NULL for calls without a device */
    char prefix[32];
};

/* Every call begins with one of these and, if it succeeds, ends with call_end. They consume the configured
 * CPU time, block while a hang is simulated, and return the error of an unusable driver or device. */
nvmlReturn_t call_begin(struct call *call);
nvmlReturn_t call_begin_device(struct call *call, nvmlDevice_t device);
/* For values that NVML reads once per process and caches (uuid, name, PCI address ...): only the first such
 * call on a hung GPU blocks. */
nvmlReturn_t call_begin_identity(struct call *call, nvmlDevice_t device);
void call_end(struct call *call);

/* Look up a key with the call's prefix (`gpu3.`, `gpu3.mig1.`, or none). */
nvmlReturn_t call_text(const struct call *call, const char *key, const char **value);
nvmlReturn_t call_uint(const struct call *call, const char *key, unsigned int *value);
nvmlReturn_t call_ull(const struct call *call, const char *key, unsigned long long *value);
unsigned int call_uint_or(const struct call *call, const char *key, unsigned int otherwise);

nvmlReturn_t copy_text(const char *text, char *buffer, unsigned int length);

/* For event waits, which must not keep the same state while they wait. */
const struct state *state_acquire(void);
void state_release(const struct state *state);
const char *state_get(const struct state *state, const char *key);

nvmlReturn_t library_open(void);
nvmlReturn_t library_close(void);

nvmlDevice_t gpu_handle(int slot);
nvmlDevice_t instance_handle(int slot, int instance);
void sleep_milliseconds(unsigned int milliseconds);
unsigned long long now_microseconds(void);

#endif
