/* Does nothing until it is told to end, and reaps whoever is left to it. It is the first process of every pod's
   sandbox, and also the first of the node's pid namespace: when that one ends, the kernel ends all the others. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal_number) {
    (void)signal_number;
    _exit(0);
}

int main(void) {
    sigset_t children;
    int signal_number;

    signal(SIGINT, end);
    signal(SIGTERM, end);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    for (;;) {
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        sigwait(&children, &signal_number);
    }
}
