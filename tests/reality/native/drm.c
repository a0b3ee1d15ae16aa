/* LD_PRELOAD for programs that ask AMD's drivers: answers their ioctls from a simulated node's /sys.
 *
 * A device file of the kernel cannot be simulated by a plain file, so this library stands in for it: the plain files
 * /dev/dri/cardN and renderDN of a simulated node appear as character devices 226:N, and an ioctl on one of them, as
 * libdrm makes them, is answered from the files of its GPU under /sys. So is the one ioctl of the compute driver,
 * /dev/kfd, that monitoring programs use: the free memory of a GPU or partition. A value that has no file there comes from the table of chips below,
 * or stays 0, as for a kernel that does not report it.
 *
 *   gcc -O2 -Wall -Wextra -Werror -shared -fPIC -o drm.so drm.c -ldl
 *   LD_PRELOAD=.../drm.so amd-smi list        DRM_LOG=1 lists the queries on standard error
 *
 * The numbers and layouts are those of the kernel's drm.h and amdgpu_drm.h, which are not needed to build this. */
#define _GNU_SOURCE
#define _LARGEFILE64_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { DRM_MAJOR = 226, AMD = 0x1002, HBM = 6, GDDR6 = 9, DDR5 = 10 };

/* What only the driver's own tables contain. */
static const struct chip {
    uint32_t code, family, shader_engines, vram_type, vram_bits;
} chips[] = {
    {0x74a1, 141, 32, HBM, 8192},  /* MI300X */
    {0x7408, 141, 8, HBM, 4096},   /* MI250X, one die */
    {0x744c, 145, 6, GDDR6, 384},  /* Radeon RX 7900 XTX */
    {0x15bf, 148, 1, DDR5, 128},   /* Radeon 780M */
};

struct gpu {
    char folder[PATH_MAX]; /* of the PCI device */
    uint64_t units;        /* compute units, of all partitions */
};

static int text_of(const char *folder, const char *name, char *text, size_t size) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return -1;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return -1;
    size_t length = fread(text, 1, size - 1, file);
    int failed = ferror(file);
    text[length] = 0;
    fclose(file);
    return failed ? -1 : 0;
}

/* A driver of the kernel has the kernel's version, and the node may have another kernel than this machine. */
int uname(struct utsname *names) {
    int (*original)(struct utsname *) = (int (*)(struct utsname *))dlsym(RTLD_NEXT, "uname");
    int result = original(names);
    if (result == 0 &&
        text_of("/proc/sys/kernel", "osrelease", names->release, sizeof names->release) == 0)
        names->release[strcspn(names->release, "\n")] = 0;
    return result;
}

static uint64_t number_of(const char *folder, const char *name, int base) {
    char text[64];
    return text_of(folder, name, text, sizeof text) == 0 ? strtoull(text, NULL, base) : 0;
}

static uint64_t property_of(const char *properties, const char *name) {
    size_t length = strlen(name);
    for (const char *line = properties; line != NULL && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return strtoull(line + length, NULL, 10);
    }
    return 0;
}

static unsigned address_of(const char *properties) { /* domain, bus and slot */
    uint64_t place = property_of(properties, "location_id");
    return property_of(properties, "domain") << 16 | (place & 0xfff8);
}

/* Reads the nodes of the compute driver. If `gpu` is not known yet, it is the one whose node, or the node of one of
 * whose partitions, has this render node. */
static void read_compute_nodes(unsigned minor, struct gpu *gpu) {
    const char *nodes = "/sys/class/kfd/kfd/topology/nodes";
    unsigned own = 0, domain, bus, slot;
    for (int pass = 0; pass < 2; pass++) { /* the first finds the GPU, the second adds its units */
        DIR *folder = opendir(nodes);
        for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
            char node[PATH_MAX], text[4096];
            snprintf(node, sizeof node, "%s/%s", nodes, entry->d_name);
            if (text_of(node, "properties", text, sizeof text))
                continue;
            uint64_t each = property_of(text, "simd_per_cu");
            if (pass == 0 && property_of(text, "drm_render_minor") == minor)
                own = address_of(text);
            else if (pass == 1 && each && address_of(text) == own)
                gpu->units += property_of(text, "simd_count") / each;
        }
        if (folder != NULL)
            closedir(folder);
        const char *name = strrchr(gpu->folder, '/');
        if (name != NULL && sscanf(name, "/%x:%x:%x.", &domain, &bus, &slot) == 3)
            own = domain << 16 | bus << 8 | slot << 3;
        else if (own)
            snprintf(gpu->folder, sizeof gpu->folder, "/sys/bus/pci/devices/%04x:%02x:%02x.0", own >> 16,
                     own >> 8 & 0xff, own >> 3 & 0x1f);
    }
}

/* The platform device of a partition has no files of a GPU. */
static int find_gpu(unsigned minor, struct gpu *gpu) {
    char device[PATH_MAX], drm[PATH_MAX + 4], text[64];
    memset(gpu, 0, sizeof *gpu);
    snprintf(device, sizeof device, "/sys/dev/char/%u:%u/device", DRM_MAJOR, minor);
    if (text_of(device, "vendor", text, sizeof text) == 0 &&
        (strtoul(text, NULL, 16) != AMD || realpath(device, gpu->folder) == NULL))
        return -1;
    snprintf(drm, sizeof drm, "%s/drm", device);
    DIR *folder = opendir(drm);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (sscanf(entry->d_name, "renderD%u", &minor) == 1)
            break;
    if (folder != NULL)
        closedir(folder);
    read_compute_nodes(minor, gpu);
    return gpu->folder[0] ? 0 : -1;
}

/* The highest clock of a file such as pp_dpm_sclk, in kHz. */
static uint64_t highest_clock(const struct gpu *gpu, const char *name) {
    char text[1024];
    uint64_t highest = 0;
    if (text_of(gpu->folder, name, text, sizeof text))
        return 0;
    for (char *at = text; (at = strchr(at, ':')) != NULL; at++) {
        uint64_t mhz = strtoull(at + 1, NULL, 10);
        highest = mhz > highest ? mhz : highest;
    }
    return highest * 1000;
}

/* A file of the GPU's hwmon folder. Returns -1 if there is none, or if it cannot be read. */
static int64_t sensor(const struct gpu *gpu, const char *name) {
    char path[PATH_MAX + 8], text[64];
    int64_t value = -1;
    snprintf(path, sizeof path, "%s/hwmon", gpu->folder);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char file[PATH_MAX];
        snprintf(file, sizeof file, "%s/%s", entry->d_name, name);
        if (entry->d_name[0] != '.' && text_of(path, file, text, sizeof text) == 0)
            value = strtoll(text, NULL, 10);
    }
    if (folder != NULL)
        closedir(folder);
    return value;
}

/* Ioctls of drm.h, and the one of amdgpu_drm.h with its queries. */

struct version {
    int major, minor, patch;
    size_t name_size;
    char *name;
    size_t date_size;
    char *date;
    size_t description_size;
    char *description;
};
struct client {
    int index, authenticated;
    unsigned long pid, uid, magic, iocs;
};
struct capability {
    uint64_t name, value;
};
struct query {
    uint64_t answer;
    uint32_t size, query, type, offset, more[2];
};
struct device {
    uint32_t code, chip_revision, external_revision, revision, family, shader_engines, shader_arrays, counter_khz;
    uint64_t engine_khz, memory_khz;
    uint32_t units, ao_mask, bitmap[16], rb_mask, rb_pipes, contexts, pcie_generation;
    uint64_t flags, first_address, last_address;
    uint32_t alignment, fragment, page, ce_ram, vram_type, vram_bits;
};
struct heap {
    uint64_t total, usable, used, max_allocation;
};
struct vbios {
    uint8_t name[64], part_number[64];
    uint32_t version, pad;
    uint8_t text[32], date[32];
};
#define VERSION _IOWR('d', 0x00, struct version)
#define GET_CLIENT _IOWR('d', 0x05, struct client)
#define GET_CAPABILITY _IOWR('d', 0x0c, struct capability)
struct free_memory {
    uint64_t available;
    uint32_t gpu_id, pad;
};
#define FREE_MEMORY _IOWR('K', 0x23, struct free_memory)
#define QUERY _IOW('d', 0x45, struct query)
enum {
    WORKS = 0x00,
    VRAM_USED = 0x10,
    GTT_USED = 0x11,
    VRAM_GTT = 0x14,
    DEVICE = 0x16,
    VISIBLE_USED = 0x17,
    MEMORY = 0x19,
    VBIOS = 0x1b,
    SENSOR = 0x1d,
    REGISTERS = 0x15,
    FIRMWARE = 0x0e,
    ENGINES = 0x02,
    ENGINE_COUNT = 0x03,
};
enum { VBIOS_INFO = 3 };
enum { SCLK = 1, MCLK, TEMPERATURE, LOAD, AVERAGE_POWER, INPUT_POWER = 0xc, VDDGFX = 7 };

static void put(char *target, size_t *size, const char *text) {
    size_t length = strlen(text);
    if (target != NULL)
        memcpy(target, text, *size < length ? *size : length);
    *size = length;
}

static int give(const struct query *query, const void *answer, size_t size) {
    void *target = (void *)(uintptr_t)query->answer;
    memset(target, 0, query->size);
    memcpy(target, answer, size < query->size ? size : query->size);
    return 0;
}

static int refuse(int error) {
    errno = error;
    return -1;
}

static int give_device(const struct query *query, const struct gpu *gpu) {
    struct device device = {
        .code = number_of(gpu->folder, "device", 16),
        .revision = number_of(gpu->folder, "revision", 16),
        .shader_arrays = 1,
        .engine_khz = highest_clock(gpu, "pp_dpm_sclk"),
        .memory_khz = highest_clock(gpu, "pp_dpm_mclk"),
        .units = gpu->units,
        .first_address = 0x200000,
        .last_address = 0x800000000000,
        .alignment = 4096,
        .fragment = 2 << 20,
        .page = 4096,
    };
    for (size_t n = 0; n < sizeof chips / sizeof *chips; n++)
        if (chips[n].code == device.code) {
            device.family = chips[n].family;
            device.shader_engines = chips[n].shader_engines;
            device.vram_type = chips[n].vram_type;
            device.vram_bits = chips[n].vram_bits;
        }
    return give(query, &device, sizeof device);
}

static int give_sensor(const struct query *query, const struct gpu *gpu) {
    int64_t value = -1;
    switch (query->type) {
    case SCLK:
        value = sensor(gpu, "freq1_input");
        value = value < 0 ? value : value / 1000000;
        break;
    case MCLK:
        value = sensor(gpu, "freq2_input");
        value = value < 0 ? value : value / 1000000;
        break;
    case TEMPERATURE:
        value = sensor(gpu, "temp1_input");
        break;
    case LOAD: {
        char text[64];
        if (text_of(gpu->folder, "gpu_busy_percent", text, sizeof text) == 0)
            value = strtoll(text, NULL, 10);
        break;
    }
    case AVERAGE_POWER:
    case INPUT_POWER:
        value = sensor(gpu, query->type == INPUT_POWER ? "power1_input" : "power1_average");
        value = value < 0 ? value : value / 1000000;
        break;
    case VDDGFX:
        value = sensor(gpu, "in0_input");
    }
    if (value < 0)
        return refuse(EINVAL);
    uint32_t word = value;
    return give(query, &word, sizeof word);
}

static int answer(const struct query *query, const struct gpu *gpu) {
    switch (query->query) {
    case WORKS:
        return give(query, &(uint32_t){1}, sizeof(uint32_t));
    case DEVICE:
        return give_device(query, gpu);
    case VRAM_USED:
    case VISIBLE_USED:
        return give(query, &(uint64_t){number_of(gpu->folder, "mem_info_vram_used", 10)}, sizeof(uint64_t));
    case GTT_USED:
        return give(query, &(uint64_t){number_of(gpu->folder, "mem_info_gtt_used", 10)}, sizeof(uint64_t));
    case VRAM_GTT: {
        uint64_t total = number_of(gpu->folder, "mem_info_vram_total", 10), sizes[3] = {total, total, number_of(gpu->folder, "mem_info_gtt_total", 10)};
        return give(query, sizes, sizeof sizes);
    }
    case MEMORY: {
        uint64_t total = number_of(gpu->folder, "mem_info_vram_total", 10), gtt = number_of(gpu->folder, "mem_info_gtt_total", 10);
        struct heap own = {total, total, number_of(gpu->folder, "mem_info_vram_used", 10), total * 3 / 4};
        struct heap host = {gtt, gtt, number_of(gpu->folder, "mem_info_gtt_used", 10), gtt * 3 / 4};
        struct heap heaps[3] = {own, own, host};
        return give(query, heaps, sizeof heaps);
    }
    case VBIOS: {
        struct vbios vbios = {0};
        if (query->type != VBIOS_INFO)
            return refuse(EINVAL);
        if (text_of(gpu->folder, "vbios_version", (char *)vbios.part_number, sizeof vbios.part_number))
            return refuse(EINVAL);
        vbios.part_number[strcspn((char *)vbios.part_number, "\n")] = 0;
        return give(query, &vbios, sizeof vbios);
    }
    case SENSOR:
        return give_sensor(query, gpu);
    case REGISTERS:
    case FIRMWARE:
    case ENGINES:
    case ENGINE_COUNT:
        return give(query, "", 0); /* zeros: no such engine, unknown version */
    }
    return refuse(EINVAL);
}

/* The minor number of a device file below /dev/dri, or -1. */
static int minor_of(const char *path) {
    const char *name = strrchr(path, '/');
    int minor = -1, length = 0;
    if (name == NULL || name - path < 4 || strncmp(name - 4, "/dri", 4) != 0)
        return -1;
    if (sscanf(name, "/renderD%d%n", &minor, &length) < 1 || name[length])
        if (sscanf(name, "/card%d%n", &minor, &length) < 1 || name[length])
            return -1;
    return minor;
}

static const char *path_of(int descriptor) {
    static _Thread_local char path[PATH_MAX];
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

static int give_free_memory(struct free_memory *asked) {
    const char *nodes = "/sys/class/kfd/kfd/topology/nodes";
    DIR *folder = opendir(nodes);
    int failed = EINVAL;
    for (struct dirent *entry; failed && folder != NULL && (entry = readdir(folder)) != NULL;) {
        char node[PATH_MAX], text[256];
        snprintf(node, sizeof node, "%s/%s", nodes, entry->d_name);
        if (entry->d_name[0] == '.' || number_of(node, "gpu_id", 10) != asked->gpu_id)
            continue;
        if (text_of(node, "mem_banks/0/properties", text, sizeof text))
            break;
        asked->available = property_of(text, "size_in_bytes") - number_of(node, "mem_banks/0/used_memory", 10);
        failed = 0;
    }
    if (folder != NULL)
        closedir(folder);
    return failed ? refuse(failed) : 0;
}

int ioctl(int descriptor, unsigned long request, ...) {
    static int (*kernel)(int, unsigned long, ...);
    if (kernel == NULL)
        kernel = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (request == FREE_MEMORY && strcmp(path_of(descriptor), "/dev/kfd") == 0)
        return give_free_memory(argument);
    int minor = _IOC_TYPE(request) == 'd' ? minor_of(path_of(descriptor)) : -1;
    if (minor < 0)
        return kernel(descriptor, request, argument);
    struct gpu gpu;
    if (find_gpu(minor, &gpu))
        return refuse(ENODEV);
    if (request == VERSION) {
        struct version *version = argument;
        version->major = 3;
        version->minor = 61;
        version->patch = 0;
        put(version->name, &version->name_size, "amdgpu");
        put(version->date, &version->date_size, "0");
        put(version->description, &version->description_size, "AMD GPU");
        return 0;
    }
    if (request == GET_CLIENT) {
        ((struct client *)argument)->authenticated = 1;
        return 0;
    }
    if (request == GET_CAPABILITY) {
        ((struct capability *)argument)->value = 1;
        return 0;
    }
    if (_IOC_NR(request) != _IOC_NR(QUERY))
        return refuse(EINVAL);
    int failed = answer(argument, &gpu), error = errno;
    if (getenv("DRM_LOG") != NULL)
        fprintf(stderr, "drm: minor %d query 0x%x type %u: %s\n", minor, ((struct query *)argument)->query,
                ((struct query *)argument)->type, failed ? strerror(error) : "answered");
    errno = error;
    return failed;
}

/* libdrm looks for character devices. */
#define AS_DEVICE(minor, status) \
    if ((minor) >= 0 && S_ISREG((status)->st_mode)) { \
        (status)->st_mode = S_IFCHR | 0660; \
        (status)->st_rdev = makedev(DRM_MAJOR, (minor)); \
    }
#define BY_PATH(function, type) \
    int function(const char *path, struct type *status) { \
        static int (*next)(const char *, struct type *); \
        if (next == NULL) \
            next = (int (*)(const char *, struct type *))dlsym(RTLD_NEXT, #function); \
        int failed = next(path, status); \
        if (!failed) \
            AS_DEVICE(minor_of(path), status) \
        return failed; \
    }
#define BY_DESCRIPTOR(function, type) \
    int function(int descriptor, struct type *status) { \
        static int (*next)(int, struct type *); \
        if (next == NULL) \
            next = (int (*)(int, struct type *))dlsym(RTLD_NEXT, #function); \
        int failed = next(descriptor, status); \
        if (!failed && S_ISREG(status->st_mode)) \
            AS_DEVICE(minor_of(path_of(descriptor)), status) \
        return failed; \
    }
BY_PATH(stat, stat)
BY_PATH(lstat, stat)
BY_DESCRIPTOR(fstat, stat)
BY_PATH(stat64, stat64)
BY_PATH(lstat64, stat64)
BY_DESCRIPTOR(fstat64, stat64)
