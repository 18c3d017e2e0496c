/* Counts the allocations of a process, in all threads, while a file descriptor is armed.
 *
 * Loaded by LD_PRELOAD. `armed_with(fd, least)` reports every allocation of `least` bytes or more,
 * with the Python lines of its thread, to `fd`; fd -1 ends it. `allocated_bytes()` are those of all
 * allocations since it began that are no small objects of Python, which has pools for these.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

#define POOLED 512

static atomic_int armed = -1;
static atomic_size_t least_bytes = 0;
static atomic_size_t sum_of_bytes = 0;
static _Thread_local int inside = 0;
static void *(*state_of_thread)(void);
static void (*dump)(int, void *);
static void *(*real_mmap)(void *, size_t, int, int, int, off_t);

void armed_with(int fd, size_t least) {
    state_of_thread = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    dump = dlsym(RTLD_DEFAULT, "_Py_DumpTraceback");
    atomic_store(&least_bytes, least);
    if (fd >= 0)
        atomic_store(&sum_of_bytes, 0);
    atomic_store(&armed, fd);
}

size_t allocated_bytes(void) {
    return atomic_load(&sum_of_bytes);
}

static void tell(const char *function, size_t size) {
    int fd = atomic_load(&armed);
    if (fd < 0 || inside)
        return;
    if (size > POOLED)
        atomic_fetch_add(&sum_of_bytes, size);
    if (size < atomic_load(&least_bytes))
        return;
    inside = 1;
    int kept = errno;
    char line[80];
    int length = snprintf(line, sizeof line, "allocated %zu %s\n", size, function);
    if (write(fd, line, (size_t)length) < 0)
        _exit(99);
    void *state = state_of_thread ? state_of_thread() : NULL;
    if (state && dump)
        dump(fd, state);
    errno = kept;
    inside = 0;
}

void *malloc(size_t size) {
    tell("malloc", size);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    tell("calloc", count * size);
    return __libc_calloc(count, size);
}

void *realloc(void *at, size_t size) {
    tell("realloc", size);
    return __libc_realloc(at, size);
}

void *memalign(size_t alignment, size_t size) {
    tell("memalign", size);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    tell("aligned_alloc", size);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **at, size_t alignment, size_t size) {
    tell("posix_memalign", size);
    *at = __libc_memalign(alignment, size);
    return *at ? 0 : ENOMEM;
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    if (!real_mmap)
        real_mmap = dlsym(RTLD_NEXT, "mmap");
    tell("mmap", size);
    return real_mmap(at, size, protection, flags, file, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    return mmap(at, size, protection, flags, file, offset);
}
