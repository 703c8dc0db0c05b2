// Reads and writes of the C library that do only part of the request, and are interrupted in turn: for
// tests/system/system_calls.rs.
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
static atomic_uint turn;
static int interrupted(void) {
    if (atomic_fetch_add(&turn, 1) % 3 != 1) return 0;
    errno = EINTR;
    return 1;
}
static size_t some(size_t n) { return n < 2 ? n : 1 + (atomic_fetch_add(&turn, 1) * 7919u) % n; }
ssize_t read(int f, void *b, size_t n) { return interrupted() ? -1 : syscall(SYS_read, f, b, some(n)); }
ssize_t pread64(int f, void *b, size_t n, off64_t o) { return interrupted() ? -1 : syscall(SYS_pread64, f, b, some(n), o); }
ssize_t write(int f, const void *b, size_t n) { return interrupted() ? -1 : syscall(SYS_write, f, b, some(n)); }
ssize_t pwrite64(int f, const void *b, size_t n, off64_t o) { return interrupted() ? -1 : syscall(SYS_pwrite64, f, b, some(n), o); }
ssize_t writev(int f, const struct iovec *v, int n) { return n < 1 ? 0 : write(f, v->iov_base, v->iov_len); }
