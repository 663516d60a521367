/* launches.c - counts launches, and the memory sectors that each launch and each call reads and writes.
 *
 * Compilers call the functions __tsan_* for every memory access (-fsanitize=thread); this file replaces the thread sanitizer. A
 * sector that a launch reads again is cached, and a written sector need not be read, so both count once. For a call, sectors
 * are counted once over all its launches, without its workspace: the least traffic of its operands. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/launches/launches.h"

enum { SECTOR = 32, NAMES = 400, NAME = 160 };
static const int64_t ROOM = INT64_C(256) << 30;

typedef struct traffic {
    int64_t n, read, written, asked, least;
} traffic;

static struct {
    char name[NAME];
    traffic t;
} list[NAMES];
static int n_names;

/* Per sector: the launch and the call that last read or wrote it. */
static struct {
    uint32_t read, written, call_read, call_written;
} * sectors;
static char *memory;
static int64_t used;
static uint32_t launch, call;
static traffic *current;
static const char *workspace;
static int64_t workspace_bytes;
static bool runs;

void *launches_allocate(int64_t bytes)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (!memory) {
        void *room = mmap(NULL, (size_t)ROOM, PROT_READ | PROT_WRITE, flags, -1, 0);
        void *marks = mmap(NULL, (size_t)ROOM / SECTOR * sizeof *sectors, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (room == MAP_FAILED || marks == MAP_FAILED) return NULL;
        memory = room;
        sectors = marks;
    }
    if (bytes > ROOM - used) return NULL;
    void *at = memory + used;
    used += (bytes + 4095) / 4096 * 4096;
    return at;
}

static traffic *named(const char *name, size_t length)
{
    if (length >= NAME) length = NAME - 1;
    for (int k = 0; k < n_names; k++)
        if (strlen(list[k].name) == length && !memcmp(list[k].name, name, length)) return &list[k].t;
    int k = n_names < NAMES ? n_names++ : NAMES - 1;
    memcpy(list[k].name, name, length);
    list[k].name[length] = 0;
    return &list[k].t;
}

void launches_call(const void *room, int64_t bytes)
{
    call++;
    workspace = room;
    workspace_bytes = bytes;
}

void launches_library(const char *name)
{
    named(name, strlen(name))->n++;
}

/* Example of `instance`: "static void mp_each(int64_t, const F&) [with F = {anonymous}::sum_of<MP_DTYPE_FLOAT>; int64_t = long
 * int]" */
bool launches_begin(const char *instance)
{
    const char *from = strstr(instance, "F = "), *to = from;
    for (int depth = 0; to && *to && (depth > 0 || (*to != ';' && *to != ']')); to++) depth += (*to == '<') - (*to == '>');
    current = from ? named(from + 4, (size_t)(to - from - 4)) : named(instance, strlen(instance));
    current->n++;
    launch++;
    return runs;
}

void launches_reset(bool runs_bodies)
{
    n_names = 0;
    memset(list, 0, sizeof list);
    current = NULL;
    runs = runs_bodies;
}

void launches_print(const char *path)
{
    traffic own = {0};
    int64_t calls = 0;
    FILE *f = fopen(path, "w");
    if (!f) return;
    fprintf(f, "name,launches,read,written,asked,least\n");
    for (int k = 0; k < n_names; k++) {
        const traffic *t = &list[k].t;
        const bool is_library = !strncmp(list[k].name, "cu", 2);
        fprintf(f, "\"%s\",%lld,%lld,%lld,%lld,%lld\n", list[k].name, (long long)t->n, (long long)t->read,
                (long long)t->written, (long long)t->asked, (long long)t->least);
        calls += is_library ? t->n : 0;
        own.n += is_library ? 0 : t->n;
        own.read += t->read;
        own.written += t->written;
        own.asked += t->asked;
        own.least += t->least;
    }
    fprintf(f, "own kernels,%lld,%lld,%lld,%lld,%lld\n", (long long)own.n, (long long)own.read, (long long)own.written,
            (long long)own.asked, (long long)own.least);
    fprintf(f, "libraries,%lld,0,0,0,0\n", (long long)calls);
    fclose(f);
}

/* ---- memory accesses ---- */

static void touch(const void *at, int64_t bytes, bool writes)
{
    const int64_t first = (const char *)at - memory;
    if (!current || first < 0 || first >= used) return;
    const bool operand = (const char *)at < workspace || (const char *)at >= workspace + workspace_bytes;
    current->asked += bytes;
    for (int64_t s = first / SECTOR; s <= (first + bytes - 1) / SECTOR; s++) {
        if (writes && sectors[s].written != launch) {
            sectors[s].written = launch;
            current->written += SECTOR;
        } else if (!writes && sectors[s].read != launch && sectors[s].written != launch) {
            sectors[s].read = launch;
            current->read += SECTOR;
        }
        if (!operand) continue;
        if (writes && sectors[s].call_written != call) {
            sectors[s].call_written = call;
            current->least += SECTOR;
        } else if (!writes && sectors[s].call_read != call && sectors[s].call_written != call) {
            sectors[s].call_read = call;
            current->least += SECTOR;
        }
    }
}

#define ACCESSES(X) X(1) X(2) X(4) X(8) X(16)
#define ACCESS(n)                             \
    void __tsan_read##n(void *at);            \
    void __tsan_write##n(void *at);           \
    void __tsan_unaligned_read##n(void *at);  \
    void __tsan_unaligned_write##n(void *at); \
    void __tsan_read##n(void *at)             \
    {                                         \
        touch(at, n, false);                  \
    }                                         \
    void __tsan_write##n(void *at)            \
    {                                         \
        touch(at, n, true);                   \
    }                                         \
    void __tsan_unaligned_read##n(void *at)   \
    {                                         \
        touch(at, n, false);                  \
    }                                         \
    void __tsan_unaligned_write##n(void *at)  \
    {                                         \
        touch(at, n, true);                   \
    }
ACCESSES(ACCESS)

void __tsan_read_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes);
void __tsan_vptr_update(void **at, void *value);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);
void __tsan_init(void);
void __tsan_read_range(void *at, size_t bytes)
{
    touch(at, (int64_t)bytes, false);
}
void __tsan_write_range(void *at, size_t bytes)
{
    touch(at, (int64_t)bytes, true);
}
void __tsan_vptr_update(void **at, void *value)
{
    (void)at;
    (void)value;
}
void __tsan_func_entry(void *caller)
{
    (void)caller;
}
void __tsan_func_exit(void) {}
void __tsan_init(void) {}
