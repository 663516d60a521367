/* transfer.c - runs one copy: by memcpy, or in pieces of a file. With io_uring, several pieces are in progress at once. */
#define _GNU_SOURCE
#include "executor/tiers/transfer.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 20, AT_ONCE = 4 };

/* A part of a copy that one system call reads or writes. */
typedef struct piece {
    bool is_under_way;
    char *memory, *at; /* memory: the bytes to copy; at: the address for the disk, which is `memory` or the piece's buffer */
    int64_t offset, bytes, whole_bytes; /* whole_bytes: bytes rounded up to whole blocks */
} piece;

struct mp_transfer {
    char *room, *buffers; /* room: memory for the buffers of all pieces; buffers: the first aligned address in it */
    /* submits: false after the kernel has refused a piece, because refused pieces stay in the io_uring */
    bool has_ring, submits;
    struct io_uring ring;
    const mp_copy *copy; /* the copy that is in progress */
    piece pieces[AT_ONCE];
    int n_under_way, failed; /* n_under_way: number of pieces in progress; failed: errno of the first failure, 0: none */
    int64_t moved_bytes;
};

mp_transfer *mp_transfer_new(bool plain)
{
    MP_OWNED_BY(mp_transfer_free) mp_transfer *m = mp_alloc(1, sizeof *m);
    if (!m || !(m->room = mp_alloc(1, (size_t)AT_ONCE * PIECE + MP_TIER_ALIGNMENT))) return NULL;
    m->buffers = m->room + (MP_TIER_ALIGNMENT - (uintptr_t)m->room % MP_TIER_ALIGNMENT);
    m->has_ring = m->submits = !plain && io_uring_queue_init(AT_ONCE, &m->ring, 0) == 0;
    mp_transfer *made = m;
    m = NULL;
    return made;
}

void mp_transfer_free(mp_transfer *m)
{
    if (!m) return;
    if (m->has_ring) io_uring_queue_exit(&m->ring);
    mp_free(m->room);
    mp_free(m);
}

bool mp_transfer_has_ring(const mp_transfer *m)
{
    return m->has_ring;
}

/* Reads or writes the rest of a piece (a part of a copy); `done` bytes are already complete. */
static void finish(mp_transfer *m, piece *p, int64_t done)
{
    const int file = m->copy->tier->file;
    while (done < p->bytes && !m->failed) {
        const size_t left = (size_t)(p->whole_bytes - done);
        const ssize_t n = m->copy->is_out ? pwrite(file, p->at + done, left, p->offset + done)
                                          : pread(file, p->at + done, left, p->offset + done);
        if (n > 0)
            done += n;
        else if (n == 0 || errno != EINTR)
            m->failed = n == 0 ? ENODATA : errno;
    }
    p->is_under_way = false;
    m->n_under_way--;
    if (m->failed) return;
    if (!m->copy->is_out && p->at != p->memory) memcpy(p->memory, p->at, (size_t)p->bytes);
    m->moved_bytes += p->bytes;
}

/* Submits a piece (a part of a copy) to the system's kernel; false: the kernel refused it. */
static bool submit(mp_transfer *m, piece *p)
{
    /* the entry is never NULL, because the io_uring has an entry for every piece */
    struct io_uring_sqe *e = io_uring_get_sqe(&m->ring);
    const int file = m->copy->tier->file;
    if (m->copy->is_out)
        io_uring_prep_write(e, file, p->at, (unsigned)p->whole_bytes, (uint64_t)p->offset);
    else
        io_uring_prep_read(e, file, p->at, (unsigned)p->whole_bytes, (uint64_t)p->offset);
    io_uring_sqe_set_data(e, p);
    return m->submits = io_uring_submit(&m->ring) == 1;
}

/* Begins the piece at `from` bytes into the copy, of at most PIECE bytes. One entry of the list of pieces must be free. Returns
 * the bytes of the piece. */
static int64_t begin(mp_transfer *m, int64_t from)
{
    const mp_copy *c = m->copy;
    int k = 0;
    piece now = {.is_under_way = true, .memory = c->memory + from, .offset = c->offset + from};
    now.bytes = c->bytes - from < PIECE ? c->bytes - from : PIECE;
    if (c->tier->memory) {
        char *there = c->tier->memory + now.offset;
        memcpy(c->is_out ? there : now.memory, c->is_out ? now.memory : there, (size_t)now.bytes);
        m->moved_bytes += now.bytes;
        return now.bytes;
    }
    while (m->pieces[k].is_under_way) k++;
    now.whole_bytes = (now.bytes + MP_TIER_ALIGNMENT - 1) / MP_TIER_ALIGNMENT * MP_TIER_ALIGNMENT;
    const bool directly = (uintptr_t)now.memory % (uintptr_t)c->tier->memory_alignment == 0 && now.whole_bytes == now.bytes;
    now.at = directly ? now.memory : m->buffers + (ptrdiff_t)k * PIECE;
    if (c->is_out && !directly) memcpy(now.at, now.memory, (size_t)now.bytes);
    m->pieces[k] = now;
    m->n_under_way++;
    if (!m->submits || !submit(m, &m->pieces[k])) finish(m, &m->pieces[k], 0);
    return now.bytes;
}

/* Waits for one of the pieces in progress. If the system's kernel completed only a part of the piece or failed, this function
 * copies the rest. */
static void end_one(mp_transfer *m)
{
    struct io_uring_cqe *c;
    while (io_uring_wait_cqe(&m->ring, &c) != 0) continue; /* interrupted by a signal */
    piece *p = io_uring_cqe_get_data(c);
    const int result = c->res;
    io_uring_cqe_seen(&m->ring, c);
    finish(m, p, result > 0 ? result : 0);
}

mp_status mp_transfer_run(mp_transfer *m, const mp_copy *c, mp_paced paced, void *data, mp_error *err)
{
    bool goes_on = true;
    int64_t begun = 0;
    m->copy = c;
    m->failed = 0;
    m->moved_bytes = 0;
    for (;;) {
        const int64_t left = c->bytes - begun;
        if (left > 0 && goes_on && !m->failed && m->n_under_way < AT_ONCE) {
            goes_on = paced(data, begun);
            if (goes_on) begun += begin(m, begun);
        } else if (m->n_under_way) {
            end_one(m);
        } else {
            break;
        }
    }
    MP_ENSURE(!m->failed, err, MP_IO, "'%.120s' cannot be copied %s %s: %s", c->label, c->is_out ? "to" : "back from",
              c->tier->title, strerrordesc_np(m->failed));
    MP_ENSURE(m->moved_bytes == c->bytes, err, MP_LIMIT, "the copy of '%.120s' was stopped", c->label);
    return MP_OK;
}
