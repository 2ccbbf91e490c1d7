/* Faults for a process that is started with this library before the C library (LD_PRELOAD): calls
 * that write to, sync or open chosen files fail or take long, and the wall clock is shifted. What
 * happens when is said by a small file of numbers that the harness changes while the process runs
 * (xtask/src/soak/faults.rs has the same layout). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, OPEN = 4 };

struct control {
    uint64_t calls;    /* calls so far, counted here */
    uint64_t from;     /* the first call that fails */
    uint64_t until;    /* the first one after it that does not */
    uint64_t error;    /* as errno has it */
    uint64_t kinds;    /* which calls count: WRITE, SYNC, OPEN */
    uint64_t tear;     /* whether the first write that fails writes its first half */
    uint64_t delay_us; /* how long every sync takes longer */
    int64_t clock_ms;  /* how far the wall clock is ahead */
};

#define MOST_FILES 65536

static volatile struct control *control;
static const char *words; /* files are chosen whose path has one of these, parted by colons */
static unsigned char chosen[MOST_FILES];

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("NEXTPAIR_FAULTS");
    words = getenv("NEXTPAIR_FAULTS_FILES");
    if (!path || !words) return;
    words = strdup(words); /* PostgreSQL writes over its environment */
    int file = REAL(open)(path, O_RDWR);
    if (file < 0) abort();
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) abort();
    control = mapped;
    REAL(close)(file);
}

static int is_chosen(const char *path) {
    if (!control) return 0;
    for (const char *word = words; *word;) {
        size_t length = strcspn(word, ":");
        if (length && memmem(path, strlen(path), word, length)) return 1;
        word += length + (word[length] == ':');
    }
    return 0;
}

/* 0: goes on; 1: fails; 2: fails, and is the first that does. errno is set. */
static int fails(int kind) {
    if (!(control->kinds & kind)) return 0;
    uint64_t call = __atomic_add_fetch(&control->calls, 1, __ATOMIC_SEQ_CST);
    if (call < control->from || call >= control->until) return 0;
    errno = (int)control->error;
    return call == control->from ? 2 : 1;
}

static int marked(int file) {
    return control && file >= 0 && file < MOST_FILES && chosen[file];
}

static int opened(int file, const char *path) {
    if (file >= 0 && file < MOST_FILES) chosen[file] = is_chosen(path);
    return file;
}

#define OPENS(name, parameters, arguments)                                \
    int name parameters {                                                 \
        mode_t mode = 0;                                                  \
        if (flags & (O_CREAT | O_TMPFILE)) {                              \
            va_list rest;                                                 \
            va_start(rest, flags);                                        \
            mode = va_arg(rest, mode_t);                                  \
            va_end(rest);                                                 \
        }                                                                 \
        if (is_chosen(path) && fails(OPEN)) return -1;                    \
        return opened(REAL(name) arguments, path);                        \
    }
OPENS(open, (const char *path, int flags, ...), (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENS(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPENS(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

int close(int file) {
    if (file >= 0 && file < MOST_FILES) chosen[file] = 0;
    return REAL(close)(file);
}

#define WRITES(name, parameters, whole, half)                             \
    ssize_t name parameters {                                             \
        int failing = marked(file) ? fails(WRITE) : 0;                    \
        if (failing == 2 && control->tear && size > 1) return REAL(name) half; \
        return failing ? -1 : REAL(name) whole;                           \
    }
WRITES(write, (int file, const void *bytes, size_t size), (file, bytes, size), (file, bytes, size / 2))
WRITES(pwrite, (int file, const void *bytes, size_t size, off_t at), (file, bytes, size, at),
       (file, bytes, size / 2, at))
WRITES(pwrite64, (int file, const void *bytes, size_t size, off64_t at), (file, bytes, size, at),
       (file, bytes, size / 2, at))

#define VECTORS(name, parameters, arguments)                              \
    ssize_t name parameters {                                             \
        return marked(file) && fails(WRITE) ? -1 : REAL(name) arguments;  \
    }
VECTORS(writev, (int file, const struct iovec *parts, int count), (file, parts, count))
VECTORS(pwritev, (int file, const struct iovec *parts, int count, off_t at), (file, parts, count, at))
VECTORS(pwritev64, (int file, const struct iovec *parts, int count, off64_t at),
        (file, parts, count, at))

#define GROWS(name, parameters, arguments)                                \
    int name parameters {                                                 \
        return marked(file) && fails(WRITE) ? -1 : REAL(name) arguments;  \
    }
GROWS(ftruncate, (int file, off_t size), (file, size))
GROWS(ftruncate64, (int file, off64_t size), (file, size))
GROWS(fallocate, (int file, int mode, off_t at, off_t size), (file, mode, at, size))
GROWS(fallocate64, (int file, int mode, off64_t at, off64_t size), (file, mode, at, size))

/* These return the error. */
int posix_fallocate(int file, off_t at, off_t size) {
    return marked(file) && fails(WRITE) ? errno : REAL(posix_fallocate)(file, at, size);
}
int posix_fallocate64(int file, off64_t at, off64_t size) {
    return marked(file) && fails(WRITE) ? errno : REAL(posix_fallocate64)(file, at, size);
}

#define SYNCS(name)                                                       \
    int name(int file) {                                                  \
        if (marked(file)) {                                               \
            if (control->delay_us) usleep((useconds_t)control->delay_us); \
            if (fails(SYNC)) return -1;                                   \
        }                                                                 \
        return REAL(name)(file);                                          \
    }
SYNCS(fsync)
SYNCS(fdatasync)

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = REAL(clock_gettime)(clock, time);
    if (result == 0 && control && clock == CLOCK_REALTIME) {
        int64_t ahead = control->clock_ms;
        time->tv_sec += ahead / 1000;
    }
    return result;
}
