/* The simulated nvidia-smi: prints the requested parts of DIR/state/smi.
 *
 * It is a compiled program so that starting it is as fast as starting the real one. The state contains the
 * CPU time and memory that it uses in addition, to cost as much as the real one. */
#define _GNU_SOURCE
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_INVALID = 2, EXIT_NO_DRIVER = 9, EXIT_LOST = 15 };
#define MAX_FIELDS 256
#define MAX_GPUS 64
#define HANG_POLL_MICROSECONDS 20000

struct request {
    const char *query_gpu, *query_apps, *gpu_id, *selection, *time_columns;
    bool list, details, xml, version, help_query_gpu, pmon;
    bool header, units;
    long samples, delay;
};

static char *state;  /* the whole text; sections begin with "@@ name\n" */
static char *output; /* printed at the end, after simulated faults have changed it */
static size_t output_length, output_room;
static bool selected[MAX_GPUS]; /* by index */
static int exit_code;

static void append(const char *format, ...) {
    va_list arguments;
    char *text;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        exit(EXIT_FAILURE);
    if (output_length + (size_t)length + 1 > output_room) {
        output_room = 2 * (output_room + (size_t)length + 1);
        output = realloc(output, output_room);
        if (!output)
            exit(EXIT_FAILURE);
    }
    memcpy(output + output_length, text, (size_t)length + 1);
    output_length += (size_t)length;
    free(text);
}

static bool load_state(void) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);
    if (length <= 0)
        return false;
    path[length] = '\0';
    for (int up = 0; up < 2; up++) { /* DIR/bin/nvidia-smi to DIR */
        char *slash = strrchr(path, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    strcat(path, "/state/smi");
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    free(state);
    state = NULL;
    size_t have = 0, room = 0;
    for (;;) {
        if (have + 65536 > room) {
            room = 2 * room + 65536;
            state = realloc(state, room + 1);
            if (!state)
                exit(EXIT_FAILURE);
        }
        size_t more = fread(state + have, 1, room - have, file);
        if (more == 0)
            break;
        have += more;
    }
    fclose(file);
    state[have] = '\0';
    return true;
}

/* A copy of a section's text; empty if the section does not exist. */
static char *section(const char *name) {
    char mark[64];
    snprintf(mark, sizeof mark, "@@ %s\n", name);
    for (const char *at = state; at;) {
        if (strncmp(at, mark, strlen(mark)) == 0) {
            const char *begin = at + strlen(mark), *end = strstr(begin, "\n@@ ");
            if (strncmp(begin, "@@ ", 3) == 0)
                return strdup("");
            return end ? strndup(begin, (size_t)(end + 1 - begin)) : strdup(begin);
        }
        at = strstr(at, "\n@@ ");
        if (at)
            at++;
    }
    return strdup("");
}

static bool has_fault(const char *word, char **rest) {
    char *lines = section("fault"), *save = NULL;
    for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        size_t length = strlen(word);
        if (strncmp(line, word, length) == 0 && (line[length] == '\0' || line[length] == ' ')) {
            if (rest)
                *rest = line + length + (line[length] == ' ');
            return true;
        }
    }
    return false;
}

static void consume_cost(void) {
    long milliseconds = 0, mebibytes = 0;
    struct timespec now;
    sscanf(section("cost"), "%ld %ld", &milliseconds, &mebibytes);
    volatile char *memory = mebibytes > 0 ? malloc((size_t)mebibytes << 20) : NULL;
    for (size_t at = 0; memory && at < (size_t)mebibytes << 20; at += 4096)
        memory[at] = 1;
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < milliseconds);
}

static void hang(void) {
    do
        usleep(HANG_POLL_MICROSECONDS);
    while (load_state() && has_fault("hang", NULL));
}

/* Selects the requested GPUs. Blocks for a hung one and prints an error for a lost one. */
static void select_gpus(const char *id) {
    char *lines = section("gpus"), *save = NULL;
    for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int index;
        char uuid[64], address[32], serial[32], fault[32];
        if (sscanf(line, "%d\t%63[^\t]\t%31[^\t]\t%31[^\t]\t%31s", &index, uuid, address, serial, fault) != 5)
            continue;
        char number[16];
        snprintf(number, sizeof number, "%d", index);
        bool wanted = !id || strcmp(id, number) == 0 || strcasecmp(id, uuid) == 0 ||
                      strcasecmp(id, address) == 0 || strcasecmp(id, address + 4) == 0 || strcmp(id, serial) == 0;
        if (!wanted || index >= MAX_GPUS)
            continue;
        if (strcmp(fault, "hang") == 0) {
            char mark[256];
            snprintf(mark, sizeof mark, "%s\t%s\t%s\thang", uuid, address, serial);
            do
                usleep(HANG_POLL_MICROSECONDS);
            while (load_state() && strstr(state, mark));
        }
        selected[index] = true;
        if (strcmp(fault, "lost") == 0) {
            append("Unable to determine the device handle for GPU%s: GPU is lost.  "
                   "Reboot the system to recover this GPU\n",
                   address + 4);
            selected[index] = false;
            exit_code = EXIT_LOST;
        }
    }
}

/* --- Tables: lines of name, header, unit, and one cell per GPU or process --- */

struct column {
    char *header, *unit, **cells;
    int count;
};

static bool find_column(const char *table, const char *name, struct column *column) {
    char *lines = strdup(table), *save = NULL;
    for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *rest = line, *first = strsep(&rest, "\t");
        if (strcmp(first, name) != 0)
            continue;
        column->header = strsep(&rest, "\t");
        column->unit = strsep(&rest, "\t");
        size_t room = 1;
        for (const char *at = rest; at && *at; at++)
            room += *at == '\t';
        column->cells = calloc(room, sizeof *column->cells);
        if (!column->cells)
            exit(EXIT_FAILURE);
        column->count = 0;
        while (rest)
            column->cells[column->count++] = strsep(&rest, "\t");
        return true;
    }
    return false;
}

static bool is_number(const char *cell) { return (*cell >= '0' && *cell <= '9') || *cell == '-'; }

static void print_table(const struct request *request, const char *table_name, const char *fields,
                        const char *gpu_row) {
    struct column columns[MAX_FIELDS], gpus;
    char *table = section(table_name), *names = strdup(fields), *save = NULL;
    int count = 0;
    for (char *name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        while (*name == ' ')
            name++;
        if (count == MAX_FIELDS || !find_column(table, name, &columns[count])) {
            output_length = 0;
            append("Field \"%s\" is not a valid field to query.\n\n", name);
            exit_code = EXIT_INVALID;
            return;
        }
        count++;
    }
    if (!find_column(table, gpu_row, &gpus))
        return;
    for (int i = 0; request->header && i < count; i++)
        append("%s%s", columns[i].header, i + 1 < count ? ", " : "\n");
    for (int row = 0; row < gpus.count; row++) {
        int index = atoi(gpus.cells[row]);
        if (index < 0 || index >= MAX_GPUS || !selected[index])
            continue;
        for (int i = 0; i < count; i++) {
            const char *cell = columns[i].cells[row];
            bool with_unit = request->units && *columns[i].unit && is_number(cell);
            append("%s%s%s%s", cell, with_unit ? " " : "", with_unit ? columns[i].unit : "",
                   i + 1 < count ? ", " : "\n");
        }
    }
}

static void print_pmon(const struct request *request) {
    bool use = strchr(request->selection, 'u'), memory = strchr(request->selection, 'm');
    bool date = strchr(request->time_columns, 'D'), clock_time = strchr(request->time_columns, 'T');
    const char *name = use && memory ? "pmon um" : memory ? "pmon m" : "pmon u";
    for (long sample = 0; sample < request->samples; sample++) {
        if (sample > 0) {
            fwrite(output, 1, output_length, stdout);
            fflush(stdout);
            output_length = 0;
            sleep((unsigned int)request->delay);
            load_state();
        }
        char stamp[64] = "";
        time_t now = time(NULL);
        struct tm local;
        localtime_r(&now, &local);
        char *lines = section(name), *save = NULL;
        for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            if (line[0] == '#') {
                if (sample > 0)
                    continue;
                bool names = strstr(line, "gpu") != NULL;
                append("#%s%s%s\n", date ? (names ? "Date       " : "YYYYMMDD   ") : "",
                       clock_time ? (names ? "Time        " : "HH:MM:SS    ") : "", line + 1);
                continue;
            }
            int index = atoi(line);
            if (index < 0 || index >= MAX_GPUS || !selected[index])
                continue;
            const char *format = date && clock_time ? " %Y%m%d   %H:%M:%S " : date ? " %Y%m%d  " : " %H:%M:%S ";
            strftime(stamp, sizeof stamp, format, &local);
            append("%s%s\n", date || clock_time ? stamp : "", line);
        }
    }
}

static void print_each(const char *kind) {
    for (int index = 0; index < MAX_GPUS; index++) {
        char name[32];
        snprintf(name, sizeof name, "%s %d", kind, index);
        if (selected[index])
            append("%s", section(name));
    }
}

/* --- Command line --- */

static const char *value_of(const char *option, char **argv, int *at) {
    size_t length = strlen(option);
    if (strncmp(argv[*at], option, length) != 0)
        return NULL;
    if (argv[*at][length] == '=')
        return argv[*at] + length + 1;
    return argv[*at][length] == '\0' && argv[*at + 1] ? argv[++*at] : NULL;
}

static bool read_format(const char *format, struct request *request) {
    char *words = strdup(format), *save = NULL;
    bool csv = false;
    for (char *word = strtok_r(words, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        if (strcmp(word, "csv") == 0)
            csv = true;
        else if (strcmp(word, "noheader") == 0)
            request->header = false;
        else if (strcmp(word, "nounits") == 0)
            request->units = false;
        else
            return false;
    }
    return csv;
}

static bool read_pmon_option(struct request *request, char **argv, int *at) {
    const char *value;
    if ((value = value_of("-s", argv, at)) || (value = value_of("--select", argv, at)))
        request->selection = value;
    else if ((value = value_of("-c", argv, at)) || (value = value_of("--count", argv, at)))
        request->samples = atol(value);
    else if ((value = value_of("-d", argv, at)) || (value = value_of("--delay", argv, at)))
        request->delay = atol(value);
    else if ((value = value_of("-o", argv, at)) || (value = value_of("--options", argv, at)))
        request->time_columns = value;
    else
        return false;
    return true;
}

static bool read_arguments(struct request *request, char **argv) {
    const char *value;
    for (int at = 1; argv[at]; at++) {
        const char *word = argv[at];
        if (strcmp(word, "pmon") == 0 && at == 1)
            request->pmon = true;
        else if (request->pmon && read_pmon_option(request, argv, &at))
            continue;
        else if ((value = value_of("--query-gpu", argv, &at)))
            request->query_gpu = value;
        else if ((value = value_of("--query-compute-apps", argv, &at)))
            request->query_apps = value;
        else if ((value = value_of("--format", argv, &at))) {
            if (!read_format(value, request))
                return false;
        } else if ((value = value_of("-i", argv, &at)) || (value = value_of("--id", argv, &at)))
            request->gpu_id = value;
        else if (strcmp(word, "-L") == 0 || strcmp(word, "--list-gpus") == 0)
            request->list = true;
        else if (strcmp(word, "-q") == 0 || strcmp(word, "--query") == 0)
            request->details = true;
        else if (strcmp(word, "-x") == 0 || strcmp(word, "--xml-format") == 0)
            request->xml = true;
        else if (strcmp(word, "-qx") == 0 || strcmp(word, "-xq") == 0)
            request->details = request->xml = true;
        else if (strcmp(word, "--version") == 0)
            request->version = true;
        else if (strcmp(word, "--help-query-gpu") == 0)
            request->help_query_gpu = true;
        else
            return false;
    }
    int modes = (request->query_gpu != NULL) + (request->query_apps != NULL) + request->list +
                (request->details && request->xml) + request->version + request->help_query_gpu + request->pmon;
    return modes == 1 && request->details == request->xml;
}

static void execute(const struct request *request) {
    if (request->version) {
        append("%s", section("version"));
        return;
    }
    if (request->help_query_gpu) {
        append("%s", section("help-query-gpu"));
        return;
    }
    char *error;
    if (has_fault("error", &error)) {
        exit_code = (int)strtol(error, &error, 10);
        append("%s\n", error + 1);
        return;
    }
    select_gpus(request->gpu_id);
    if (request->query_gpu)
        print_table(request, "query-gpu", request->query_gpu, "index");
    else if (request->query_apps)
        print_table(request, "query-compute-apps", request->query_apps, "gpu index");
    else if (request->pmon)
        print_pmon(request);
    else if (request->list)
        print_each("list");
    else {
        append("%s", section("xml"));
        print_each("xml");
        append("\n</nvidia_smi_log>\n");
    }
}

/* Puts bytes that are not UTF-8 into the vendor's name and the ends of lines. */
static void break_encoding(void) {
    for (char *at = output; (at = strstr(at, "NVIDIA")); at += 6)
        at[5] = (char)0xc0;
    for (size_t i = 1; i < output_length; i++) {
        size_t last = i;
        if (output[i] != '\n')
            continue;
        while (last > 0 && (output[last] == '\n' || output[last] == ' '))
            last--;
        if (output[last] >= 'a' && output[last] <= 'z')
            output[last] = (char)0xe9;
    }
}

static int emit(void) {
    size_t length = output_length;
    bool killed = has_fault("killed", NULL);
    if (has_fault("garbage", NULL)) {
        fputs("\x1b[2J%%%% \x07 0x7ffd NaN ,,,, <<<<\n\t\t;;;;\n\x1b[0m", stdout);
        return 0;
    }
    if (has_fault("truncated", NULL) || killed)
        length = length * 6 / 10;
    if (has_fault("non_utf8", NULL) && output)
        break_encoding();
    if (length)
        fwrite(output, 1, length, stdout);
    fflush(stdout);
    if (killed)
        raise(SIGKILL);
    return exit_code;
}

int main(int argc, char **argv) {
    struct request request = {.selection = "u", .time_columns = "", .header = true, .units = true,
                              .samples = LONG_MAX, .delay = 1};
    (void)argc;
    if (!load_state()) {
        puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.");
        return EXIT_NO_DRIVER;
    }
    consume_cost();
    if (has_fault("hang", NULL))
        hang();
    if (!read_arguments(&request, argv)) {
        puts("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n");
        return EXIT_INVALID;
    }
    execute(&request);
    return emit();
}
