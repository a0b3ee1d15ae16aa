/* Processes that are there and do nothing, for exporters that look processes up in the machine's own /proc.
 *
 *   sleepers COUNT
 *
 * Prints their ids, one a line, and an empty line when all are there. They end with this program, which ends
 * when its input does. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int count = argc == 2 ? atoi(argv[1]) : 0;
    pid_t own = getpid();
    char byte;
    pid_t *children = count < 1 ? NULL : calloc((size_t)count, sizeof *children);
    if (!children) {
        fprintf(stderr, "usage: sleepers COUNT\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IONBF, 0); /* nothing that a child could print once more */
    for (int number = 0; number < count; number++) {
        pid_t child = fork();
        if (child < 0) {
            perror("sleepers: fork");
            return 1;
        }
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (getppid() == own)
                pause();
            _exit(0);
        }
        children[number] = child;
        printf("%d\n", (int)child);
    }
    printf("\n");
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    for (int number = 0; number < count; number++)
        kill(children[number], SIGKILL);
    while (wait(NULL) > 0) /* here, lest thousands be left to a process 1 that takes its time */
        ;
    return 0;
}
