/* A simulated vendor tool: says what DIR/state/<its own name> has for its command line.
 *
 * The state is lines up to an empty one, then the texts that they speak of, one after the other:
 *
 *   cost MILLISECONDS MEBIBYTES      what a run costs: CPU time, memory
 *   library NAME                     what the loader must find in LD_LIBRARY_PATH, as for the real tool
 *   spoil WORD                       garbage, truncated, non_utf8 or killed: what becomes of the output
 *   answer EXIT OUTPUT ERRORS HANGS  lengths of the two texts; HANGS is 0 or 1
 *   match PATTERN                    a command line (arguments with a blank between) that the answer is for
 *
 * The first answer that fits is given. One that hangs is waited for until the state has another.
 * A compiled program, so that starting it costs what starting a program costs and no more than is stated. */
#define _GNU_SOURCE
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_NO_STATE = 1, EXIT_NO_ANSWER = 2, EXIT_NO_LIBRARY = 127 };
#define HANG_POLL_MICROSECONDS 20000
#define LINES_BETWEEN_SPOILT 5

struct answer {
    int exit_code, hangs;
    size_t output, errors;
};

static char *state, *texts; /* the lines, cut into strings; what comes after them */
static size_t line_bytes;
static const char *name;

static char *beside_own_program(void) { /* DIR/bin/NAME to DIR/state/NAME */
    static char path[PATH_MAX], own[NAME_MAX + 1];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof "/state/" - NAME_MAX);
    if (length <= 0)
        return NULL;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    snprintf(own, sizeof own, "%s", slash + 1);
    name = own;
    *slash = '\0';
    slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    sprintf(slash, "/state/%s", own);
    return path;
}

static bool load_state(const char *path) {
    FILE *file = fopen(path, "rb");
    size_t have = 0, room = 0, more = 1;
    if (!file)
        return false;
    free(state);
    for (state = NULL; more; have += more) {
        if (have + 65536 > room) {
            room = 2 * room + 65536;
            state = realloc(state, room + 1);
            if (!state)
                exit(EXIT_FAILURE);
        }
        more = fread(state + have, 1, room - have, file);
    }
    fclose(file);
    state[have] = '\0';
    char *end = strstr(state, "\n\n");
    if (!end)
        return false;
    texts = end + 2;
    line_bytes = (size_t)(end + 1 - state);
    for (char *at = state; at < texts; at++)
        if (*at == '\n')
            *at = '\0';
    return true;
}

/* The next line after `line` (NULL: the first) that begins with the word, and what follows the word there. */
static const char *next(const char **line, const char *word) {
    size_t length = strlen(word);
    const char *at = *line ? *line + strlen(*line) + 1 : state;
    for (; at < state + line_bytes; at += strlen(at) + 1) {
        if (strncmp(at, word, length) == 0 && at[length] == ' ') {
            *line = at;
            return at + length + 1;
        }
    }
    return NULL;
}

static bool spoilt(const char *word) {
    const char *line = NULL, *found;
    while ((found = next(&line, "spoil")))
        if (strcmp(found, word) == 0)
            return true;
    return false;
}

static void spend(void) {
    long milliseconds = 0, mebibytes = 0;
    struct timespec now;
    const char *line = NULL, *cost = next(&line, "cost");
    if (cost)
        sscanf(cost, "%ld %ld", &milliseconds, &mebibytes);
    volatile char *memory = mebibytes > 0 ? malloc((size_t)mebibytes << 20) : NULL;
    for (size_t at = 0; memory && at < (size_t)mebibytes << 20; at += 4096)
        memory[at] = 1;
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < milliseconds);
}

static bool library_found(const char *library) {
    const char *folders = getenv("LD_LIBRARY_PATH");
    char *words = strdup(folders ? folders : ""), *save = NULL, path[PATH_MAX];
    for (char *folder = strtok_r(words, ":;", &save); folder; folder = strtok_r(NULL, ":;", &save)) {
        snprintf(path, sizeof path, "%s/%s", folder, library);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static bool find_answer(const char *command, struct answer *answer, const char **text) {
    bool known = false;
    *text = texts;
    *answer = (struct answer){0};
    for (const char *line = state; line < state + line_bytes; line += strlen(line) + 1) {
        struct answer read = {0};
        if (sscanf(line, "answer %d %zu %zu %d", &read.exit_code, &read.output, &read.errors, &read.hangs) == 4) {
            *text += answer->output + answer->errors;
            *answer = read;
            known = true;
        } else if (known && strncmp(line, "match ", 6) == 0 && fnmatch(line + 6, command, 0) == 0)
            return true;
    }
    return false;
}

/* Bytes of another encoding: the last letter of a line here and there. */
static void spoil_encoding(char *output, size_t length) {
    char *letter = NULL;
    for (size_t i = 0, lines = 0; i <= length; i++) {
        if (i == length || output[i] == '\n') {
            if (letter && lines % LINES_BETWEEN_SPOILT == 0)
                *letter = (char)0xe9;
            lines += letter != NULL;
            letter = NULL;
        } else if ((output[i] | 0x20) >= 'a' && (output[i] | 0x20) <= 'z')
            letter = output + i;
    }
}

static int emit(const struct answer *answer, const char *text) {
    size_t length = answer->output;
    bool killed = spoilt("killed");
    char *output = malloc(length + 1);
    if (!output)
        return EXIT_FAILURE;
    memcpy(output, text, length);
    fwrite(text + answer->output, 1, answer->errors, stderr);
    if (spoilt("garbage")) {
        fputs("\x1b[2J%%%% \x07 0x7ffd NaN ,,,, <<<<\n\t\t;;;;\n\x1b[0m", stdout);
        return 0;
    }
    if (spoilt("non_utf8"))
        spoil_encoding(output, length);
    if (spoilt("truncated") || killed)
        length = length * 6 / 10;
    fwrite(output, 1, length, stdout);
    fflush(stdout);
    if (killed)
        raise(SIGKILL);
    return answer->exit_code;
}

static char *joined(char **words) {
    size_t length = 1;
    for (char **word = words; *word; word++)
        length += strlen(*word) + 1;
    char *text = calloc(length, 1);
    if (!text)
        exit(EXIT_FAILURE);
    for (char **word = words; *word; word++) {
        if (word != words)
            strcat(text, " ");
        strcat(text, *word);
    }
    return text;
}

int main(int argc, char **argv) {
    struct answer answer;
    const char *path = beside_own_program(), *command = joined(argv + (argc > 0)), *line = NULL, *library, *text;
    if (!path || !load_state(path)) {
        fprintf(stderr, "%s: the node's folder has no state for this tool\n", name ? name : argv[0]);
        return EXIT_NO_STATE;
    }
    library = next(&line, "library");
    if (library && !library_found(library)) {
        fprintf(stderr, "%s: error while loading shared libraries: %s: cannot open shared object file: "
                "No such file or directory\n", argv[0], library);
        return EXIT_NO_LIBRARY;
    }
    spend();
    for (;;) {
        if (!find_answer(command, &answer, &text)) {
            fprintf(stderr, "%s: invalid arguments: %s\n", name, command);
            return EXIT_NO_ANSWER;
        }
        if (!answer.hangs)
            return emit(&answer, text);
        usleep(HANG_POLL_MICROSECONDS);
        if (!load_state(path))
            return EXIT_NO_STATE;
    }
}
