/* What the simulated driver knows: a flat text of `key=value` lines that the writer replaces as a whole.
 *
 * A value may be an error (`!NOT_SUPPORTED`, `!GPU_IS_LOST`): the call that asks for it answers with that. A
 * key that is not there is NVML_ERROR_NOT_SUPPORTED, as on a card that lacks the thing. */
#ifndef ACCELSCOPE_STATE_H
#define ACCELSCOPE_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "nvml_types.h"

#define MAX_GPUS 64
#define MAX_INSTANCES 8 /* MIG devices of one GPU; NVIDIA's cards have at most seven */

struct state;

/* A device handle is the address of one of these: a GPU (instance < 0) or a MIG device of it. `slot` is the
 * GPU's place in the node's description and never changes, unlike its index. */
struct nvmlDevice_st {
    int slot, instance;
};

/* One library call at work: the state it sees throughout, and the device it is about. */
struct call {
    const struct state *state;
    const struct nvmlDevice_st *device; /* NULL for calls about the whole system */
    char prefix[32];
};

/* Every call begins with one of these and, when they succeed, ends with call_end. They burn the stated CPU
 * time, block while a hang is simulated, and answer for a driver or a device that is not usable. */
nvmlReturn_t call_begin(struct call *call);
nvmlReturn_t call_begin_device(struct call *call, nvmlDevice_t device);
/* For what NVML reads once per process and then remembers (uuid, name, PCI address ...): the first such call
 * on a hung GPU blocks, later ones do not. */
nvmlReturn_t call_begin_identity(struct call *call, nvmlDevice_t device);
void call_end(struct call *call);

/* Look a key up under the call's prefix (`gpu3.`, `gpu3.mig1.`, or nothing). */
nvmlReturn_t call_text(const struct call *call, const char *key, const char **value);
nvmlReturn_t call_uint(const struct call *call, const char *key, unsigned int *value);
nvmlReturn_t call_ull(const struct call *call, const char *key, unsigned long long *value);
unsigned int call_uint_or(const struct call *call, const char *key, unsigned int otherwise);

nvmlReturn_t copy_text(const char *text, char *buffer, unsigned int length);

/* Without a call around them: for event waits, which must not hold one state while they wait. */
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
