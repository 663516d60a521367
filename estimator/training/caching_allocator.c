/* caching_allocator.c - PyTorch's caching allocator for CUDA as a simulation: pools of free blocks, segments, pages. */
#include "memplan/workloads/caching_allocator.h"

#include <string.h>

#include "estimator/base/memory.h"

enum { KIB = 1 << 10, MIB = 1 << 20, GRAIN = 512 };
static const int64_t MOST_SMALL = MIB;             /* size of the largest request that uses the small pool */
static const int64_t SMALL_SEGMENT = 2 * MIB;      /* size of a segment, and of a page, of the small pool */
static const int64_t LEAST_OWN_SEGMENT = 10 * MIB; /* requests of at least this size receive a segment of their own size */
static const int64_t LARGE_STEP = 2 * MIB;         /* the size of such a segment is rounded up to a multiple of this number */
static const int64_t ADDRESS_SPACE = INT64_C(1) << 46; /* bytes of addresses that an expandable segment reserves */
static const int64_t UNLIMITED = INT64_C(1) << 62;

/* A piece of a segment, linked to its neighbours. An unmapped block has addresses but no memory. */
typedef struct block {
    int64_t address, size;
    bool is_small, in_use, mapped;
    struct block *before, *after;
} block;

/* Free blocks. Mapped blocks are sorted by size, then by address. Unmapped blocks are sorted by address. */
typedef struct list {
    size_t n, capacity;
    block **items;
} list;

typedef struct pool {
    list mapped, unmapped;
} pool;

typedef struct allocator {
    const mp_allocator_settings *settings;
    mp_allocator_history *history;
    mp_allocator_use use;
    mp_pool *memory;
    block *spare;  /* unused structs of merged blocks, linked by `after`, for new blocks */
    pool pools[2]; /* pools[0]: large requests; pools[1]: small requests */
    int64_t allocated, reserved, next_address;
    size_t at; /* index of the request */
    bool failed;
} allocator;

mp_allocator_settings mp_allocator_defaults(void)
{
    return (mp_allocator_settings){
        .limit = UNLIMITED, .max_split = UNLIMITED, .max_rounding = 20 * MIB, .large_segment = 20 * MIB, .base = ADDRESS_SPACE};
}

static int64_t up_to(int64_t bytes, int64_t step)
{
    return (bytes + step - 1) / step * step;
}

static int64_t rounded(const mp_allocator_settings *s, int64_t bytes)
{
    int64_t step = GRAIN;
    if (s->divisions > 1 && bytes > GRAIN * s->divisions)
        step = (INT64_C(1) << (63 - __builtin_clzll((uint64_t)bytes))) / s->divisions;
    const int64_t size = up_to(bytes, step);
    return size < GRAIN ? GRAIN : size;
}

static int64_t segment_bytes(const mp_allocator_settings *s, int64_t size)
{
    return size <= MOST_SMALL ? SMALL_SEGMENT : size < LEAST_OWN_SEGMENT ? s->large_segment : up_to(size, LARGE_STEP);
}

/* ---- free blocks ---- */

static bool is_before(const block *a, const block *b, bool by_size)
{
    return by_size && a->size != b->size ? a->size < b->size : a->address < b->address;
}

/* Returns the position of the first block that is not before `b`. */
static size_t position(const list *l, const block *b, bool by_size)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (is_before(l->items[middle], b, by_size))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static list *list_of(allocator *a, const block *b)
{
    pool *p = &a->pools[b->is_small];
    return b->mapped ? &p->mapped : &p->unmapped;
}

static void add(allocator *a, block *b)
{
    list *l = list_of(a, b);
    const size_t at = position(l, b, b->mapped);
    if (!mp_grow(&l->items, &l->capacity, l->n + 1, sizeof *l->items)) {
        a->failed = true;
        return;
    }
    memmove(l->items + at + 1, l->items + at, (l->n++ - at) * sizeof *l->items);
    l->items[at] = b;
}

static void take(allocator *a, const block *b)
{
    list *l = list_of(a, b);
    const size_t at = position(l, b, b->mapped);
    if (at < l->n && l->items[at] == b) memmove(l->items + at, l->items + at + 1, (--l->n - at) * sizeof *l->items);
}

static block *new_block(allocator *a, int64_t address, int64_t size, bool is_small, bool mapped)
{
    block *b = a->spare;
    if (b) a->spare = b->after;
    if (!b) b = mp_pool_alloc(a->memory, 1, sizeof *b);
    if (b)
        *b = (block){.address = address, .size = size, .is_small = is_small, .mapped = mapped};
    else
        a->failed = true;
    return b;
}

/* Shortens a block to `size` bytes. Returns the rest as a new block behind it; NULL: out of memory. */
static block *cut(allocator *a, block *b, int64_t size)
{
    block *rest = new_block(a, b->address + size, b->size - size, b->is_small, b->mapped);
    if (!rest) return NULL;
    rest->before = b;
    rest->after = b->after;
    if (b->after) b->after->before = rest;
    b->after = rest;
    b->size = size;
    return rest;
}

static void add_rest(allocator *a, block *b, int64_t size)
{
    block *rest = cut(a, b, size);
    if (rest) add(a, rest);
}

static bool merges(const block *b, const block *other)
{
    return other && !other->in_use && other->mapped == b->mapped;
}

/* Merges a free block with its free neighbours, and adds the result to its pool. Returns the merged block. */
static block *add_merged(allocator *a, block *b)
{
    block *left = b->before, *right = b->after;
    if (merges(b, left)) {
        take(a, left);
        b->address = left->address;
        b->size += left->size;
        b->before = left->before;
        if (b->before) b->before->after = b;
        left->after = a->spare;
        a->spare = left;
    }
    if (merges(b, right)) {
        take(a, right);
        b->size += right->size;
        b->after = right->after;
        if (b->after) b->after->before = b;
        right->after = a->spare;
        a->spare = right;
    }
    add(a, b);
    return b;
}

/* ---- memory of the device ---- */

static bool reserve(allocator *a, int64_t address, int64_t bytes, bool is_small)
{
    mp_allocator_history *h = a->history;
    if (a->reserved + bytes > a->settings->limit) return false;
    a->reserved += bytes;
    if (a->reserved > a->use.reserved_bytes) a->use.reserved_bytes = a->reserved;
    if (!h) return true;
    if (h->n_growths < h->most_growths)
        h->growths[h->n_growths] = (mp_allocator_growth){(int64_t)a->at, address, bytes, is_small};
    h->n_growths++;
    return true;
}

static int64_t page_bytes(const allocator *a, bool is_small)
{
    return is_small ? SMALL_SEGMENT : a->settings->large_segment;
}

/* Maps pages for `bytes` bytes at the beginning of an unmapped block. Returns the free block that contains them; NULL: the
 * device is full. */
static block *map(allocator *a, block *b, int64_t bytes)
{
    const int64_t size = up_to(bytes, page_bytes(a, b->is_small));
    if (!reserve(a, b->address, size, b->is_small)) return NULL;
    take(a, b);
    if (size < b->size) add_rest(a, b, size);
    b->mapped = true;
    return add_merged(a, b);
}

/* Unmaps all pages that are completely within a free block. */
static void unmap(allocator *a, block *b)
{
    const int64_t page = page_bytes(a, b->is_small), offset = (b->address - a->settings->base) % ADDRESS_SPACE;
    const int64_t begin = up_to(offset, page) - offset, end = (offset + b->size) / page * page - offset;
    if (begin >= end) return;
    take(a, b);
    if (end < b->size) add_rest(a, b, end);
    if (begin > 0) {
        block *head = b;
        b = cut(a, b, begin);
        add(a, head);
    }
    if (!b) return;
    b->mapped = false;
    a->reserved -= b->size;
    add_merged(a, b);
}

/* Finds free neighbouring blocks, mapped or unmapped, of `size` bytes together, and returns the first of them. At least one of
 * them is unmapped. If there are no such blocks, creates an address range of whole pages. NULL: a range is too small. */
static block *expandable(allocator *a, bool is_small, int64_t size)
{
    const list *l = &a->pools[is_small].unmapped;
    const int64_t page = page_bytes(a, is_small), range = ADDRESS_SPACE / page * page;
    for (size_t k = 0; k < l->n; k++) {
        block *first = l->items[k];
        int64_t room = 0;
        if (first->before && !first->before->in_use) first = first->before;
        for (const block *b = first; room < size && b && !b->in_use; b = b->after) room += b->size;
        if (room >= size) return first;
    }
    if (size > range) return NULL;
    block *fresh = new_block(a, a->next_address, range, is_small, false);
    a->next_address += ADDRESS_SPACE;
    if (fresh) add(a, fresh);
    return fresh;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static block *expanded(allocator *a, bool is_small, int64_t size)
{
    block *b = expandable(a, is_small, size);
    if (b && !b->mapped) b = map(a, b, smaller(size, b->size));
    while (b && !a->failed && b->size < size) b = map(a, b->after, smaller(size - b->size, b->after->size));
    if (b) take(a, b);
    return b;
}

/* Returns a block of at least this size with new memory from the device. The block is in no pool. NULL: the device is full. */
static block *more(allocator *a, bool is_small, int64_t size)
{
    if (a->settings->expandable) return expanded(a, is_small, size);
    const int64_t segment = segment_bytes(a->settings, size);
    if (!reserve(a, a->next_address, segment, is_small)) return NULL;
    block *b = new_block(a, a->next_address, segment, is_small, true);
    a->next_address += segment;
    return b;
}

/* True if a block is a whole segment. */
static bool is_whole(const block *b)
{
    return !b->before && !b->after;
}

static void release(allocator *a, block *b)
{
    take(a, b);
    a->reserved -= b->size;
}

/* Returns the position in the pool's mapped blocks of the first one of at least this size. */
static size_t from_size(const allocator *a, bool is_small, int64_t size)
{
    const block least = {.size = size, .address = INT64_MIN};
    return position(&a->pools[is_small].mapped, &least, true);
}

/* Frees cached segments of at least max_split bytes: one segment of at least `size` bytes, or the largest ones until their sum
 * is `size`. Returns true if that many bytes were freed. */
static bool release_oversize(allocator *a, bool is_small, int64_t size)
{
    const int64_t split = a->settings->max_split, wanted = size > split ? size : split;
    const list *l = &a->pools[is_small].mapped;
    if (split == UNLIMITED || a->settings->expandable) return false;
    const size_t enough = from_size(a, is_small, wanted), least = from_size(a, is_small, split);
    if (enough < l->n && is_whole(l->items[enough])) {
        release(a, l->items[enough]);
        return true;
    }
    int64_t released = 0;
    for (size_t k = l->n; released < wanted && k > least; k--) {
        block *b = l->items[k - 1];
        if (!is_whole(b)) continue;
        released += b->size;
        release(a, b);
    }
    return released >= wanted;
}

/* Frees all unused segments, or all unused pages of expandable segments. */
static void release_cached(allocator *a)
{
    for (int p = 0; p < 2; p++) {
        const list *l = &a->pools[p].mapped;
        MP_OWNED block **all = mp_alloc(l->n, sizeof *all);
        const size_t n = l->n;
        if (!all) a->failed = true;
        if (!all) return;
        if (n) memcpy(all, l->items, n * sizeof *all);
        for (size_t k = 0; k < n; k++) {
            if (a->settings->expandable)
                unmap(a, all[k]);
            else if (is_whole(all[k]))
                release(a, all[k]);
        }
    }
}

/* ---- requests ---- */

/* Returns the size that a free block can reach if the unmapped block behind it is mapped. */
static int64_t growth(const block *b)
{
    return b->size + (b->after && !b->after->mapped ? b->after->size : 0);
}

/* Returns the best free block for a request, and removes it from its pool; NULL: there is none. */
static block *free_block(allocator *a, bool is_small, int64_t size)
{
    const mp_allocator_settings *s = a->settings;
    const list *l = &a->pools[is_small].mapped;
    const size_t first = from_size(a, is_small, size);
    if (first == l->n) return NULL;
    block *best = l->items[first];
    for (size_t k = first + 1; s->expandable && k < l->n && growth(l->items[k]) < growth(best); k++) best = l->items[k];
    if (size < s->max_split && s->max_split <= best->size) return NULL;
    if (size >= s->max_split && best->size >= size + s->max_rounding) return NULL;
    take(a, best);
    return best;
}

static bool splits(const allocator *a, const block *b, int64_t size)
{
    const int64_t rest = b->size - size;
    if (b->is_small || a->settings->expandable) return rest >= GRAIN;
    return size < a->settings->max_split && rest > MOST_SMALL;
}

/* Returns a block for a request; NULL: no memory. */
static block *allocate(allocator *a, int64_t bytes)
{
    const int64_t size = rounded(a->settings, bytes);
    const bool is_small = size <= MOST_SMALL;
    block *b = free_block(a, is_small, size);
    if (!b) b = more(a, is_small, size);
    if (!b && release_oversize(a, is_small, size)) b = more(a, is_small, size);
    if (!b) {
        release_cached(a);
        b = more(a, is_small, size);
    }
    if (!b) {
        a->use.refused = (int64_t)a->at;
        a->use.refused_bytes = size;
        a->use.held_bytes = a->reserved;
        return NULL;
    }
    if (splits(a, b, size)) add_rest(a, b, size);
    b->in_use = true;
    a->allocated += b->size;
    if (a->allocated > a->use.tensors_bytes) a->use.tensors_bytes = a->allocated;
    return b;
}

static mp_status serve(allocator *a, const mp_memory_request *r, size_t n, block **held, mp_error *err)
{
    MP_ENSURE(r->number >= 0 && r->number < (int64_t)n && r->bytes >= 0 && r->bytes <= UNLIMITED / 4, err, MP_INVALID,
              "request %zu: number %lld with %lld bytes", a->at, (long long)r->number, (long long)r->bytes);
    block *b = held[r->number];
    MP_ENSURE(!r->bytes || !b, err, MP_INVALID, "request %zu: number %lld holds a block already", a->at, (long long)r->number);
    if (r->bytes) b = held[r->number] = allocate(a, r->bytes);
    if (a->history) a->history->addresses[a->at] = b ? b->address : 0;
    if (a->history) a->history->sizes[a->at] = b ? b->size : 0;
    if (r->bytes || !b) return MP_OK;
    b->in_use = false;
    a->allocated -= b->size;
    held[r->number] = NULL;
    add_merged(a, b);
    return MP_OK;
}

mp_status mp_allocator_replay(const mp_allocator_settings *settings, const mp_memory_request *requests, size_t n,
                              mp_allocator_history *history, mp_allocator_use *out, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *memory = mp_pool_new();
    MP_OWNED block **held = mp_alloc(n, sizeof *held);
    allocator a = {.settings = settings,
                   .history = history,
                   .use.refused = -1,
                   .memory = memory,
                   .next_address = settings->base,
                   .failed = !memory || !held};
    mp_status st = MP_OK;
    if (history) history->n_growths = 0;
    for (; st == MP_OK && a.at < n && a.use.refused < 0 && !a.failed; a.at++) st = serve(&a, &requests[a.at], n, held, err);
    for (int p = 0; p < 2; p++) {
        mp_free(a.pools[p].mapped.items);
        mp_free(a.pools[p].unmapped.items);
    }
    MP_ENSURE(!a.failed, err, MP_NOMEM, "out of memory for %zu requests", n);
    if (st == MP_OK) *out = a.use;
    return st;
}
