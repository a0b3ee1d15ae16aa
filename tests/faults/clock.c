/* Preloaded into an agent: its wall clock is off by as many seconds as the file in FAULTY_CLOCK says. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
    static int (*real)(clockid_t, struct timespec *);
    static const volatile long long *offset;
    if (real == NULL)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (offset == NULL && getenv("FAULTY_CLOCK") != NULL) {
        int file = open(getenv("FAULTY_CLOCK"), O_RDONLY | O_CLOEXEC);
        void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
        if (page != MAP_FAILED)
            offset = page;
    }
    int result = real(clock, time);
    if (result == 0 && clock == CLOCK_REALTIME && offset != NULL)
        time->tv_sec += (time_t)*offset;
    return result;
}
