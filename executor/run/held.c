/* held.c - finds the memory of parameters and optimizer state, gathers sharded arrays, and extracts a rank's part. */
#include "executor/run/held.h"

#include "executor/program/parts.h"
#include "executor/ranks/exchanges.h"

/* An array in memory. If is_part, `array` describes only this rank's part, the elements `own`; otherwise it describes the
 * whole array. */
typedef struct place {
    mp_array array;
    bool is_part;
    mp_range own;
    int64_t n; /* number of elements of the whole array, including the padding of its layout */
} place;

bool mp_is_held(const mp_program *p, const mp_execution *e, int tensor)
{
    const mp_tensor *t = &p->model->tensors[tensor];
    const int storage = p->bindings->storage[tensor];
    mp_range own;
    if ((t->role != MP_ROLE_PARAMETER && t->role != MP_ROLE_BUFFER) || t->producer >= 0 || storage < 0) return false;
    if (!mp_dtype_is_float(t->dtype)) return false;
    return mp_storage_is_static(&p->graph->storages[storage]) || mp_execution_part(e, tensor, &own);
}

int mp_held_arrays(const mp_program *p, const mp_execution *e, int tensor)
{
    if (p->model->tensors[tensor].role != MP_ROLE_PARAMETER || !mp_execution_has_state(e, tensor)) return 1;
    return 1 + mp_optimizer_moments(p->options.optimizer);
}

int mp_holders_first(const mp_holders *h, int tensor)
{
    for (int r = 0; r < h->n_ranks; r++)
        if (mp_holders_arrays(h, r, tensor)) return r;
    return -1;
}

mp_status mp_holders_of(const mp_program *p, mp_execution *e, bool all, mp_pool *pool, mp_holders *out, mp_error *err)
{
    const mp_company company = mp_execution_company(e);
    const size_t n = p->model->n_tensors, ranks = all ? (size_t)company.world->n : 1;
    unsigned char *own = mp_pool_alloc(pool, n, 1), *lists = mp_pool_alloc(pool, n * ranks, 1);
    MP_ENSURE(own && lists, err, MP_NOMEM, "out of memory");
    for (size_t t = 0; t < n; t++)
        if (mp_is_held(p, e, (int)t)) own[t] = (unsigned char)mp_held_arrays(p, e, (int)t);
    *out = (mp_holders){(int)ranks, n, all ? lists : own};
    return all ? mp_communicator_exchange(company.world, own, (int64_t)n, lists, company.timeout,
                                          "the exchange of parameter holders", err)
               : MP_OK;
}

static mp_status find_values(const mp_program *p, mp_execution *e, int tensor, place *out, mp_error *err)
{
    *out = (place){.n = mp_stored_elements(&p->model->tensors[tensor])};
    char *part = mp_execution_part(e, tensor, &out->own);
    out->is_part = part;
    if (!part) return mp_execution_tensor(e, tensor, &out->array, err);
    MP_CHECK(mp_program_array(p, tensor, &out->array, err));
    out->array.data = part;
    return MP_OK;
}

/* Finds array k of the optimizer state: a moment, or the master copy, which follows the moments. */
static mp_status find_state(const mp_program *p, mp_execution *e, int tensor, int k, place *out, mp_error *err)
{
    const mp_rank_position *at = mp_execution_position(e);
    float *state;
    *out = (place){.n = mp_stored_elements(&p->model->tensors[tensor]), .is_part = at->n_shards > 1};
    out->own = mp_range_of(out->n, at->n_shards, at->shard_index);
    MP_CHECK(mp_execution_state(e, tensor, &state, err));
    MP_CHECK(mp_program_array(p, tensor, &out->array, err));
    out->array.dtype = MP_DTYPE_FLOAT;
    out->array.data = state + k * out->own.n;
    return MP_OK;
}

/* True for a 16-bit parameter with a master copy, which follows its moments. */
static bool has_master(const mp_program *p, const mp_execution *e, int tensor)
{
    return p->bindings->dtype[tensor] != MP_DTYPE_FLOAT && p->model->tensors[tensor].role == MP_ROLE_PARAMETER &&
           mp_execution_has_state(e, tensor);
}

/* Temporary memory of the backend for a whole array, if this rank stores only a part of the array. */
typedef struct room {
    const mp_backend *backend;
    char *data;
    int64_t bytes;
} room;

static void room_free(room *r)
{
    if (r->data) r->backend->release(r->backend, r->data, r->bytes);
}

static mp_status take_room(const mp_program *p, int tensor, int64_t bytes, room *r, mp_error *err)
{
    *r = (room){p->backend, p->backend->allocate(p->backend, bytes), bytes};
    MP_ENSURE(r->data, err, MP_NOMEM, "there is no memory for all elements of '%s'", p->model->tensors[tensor].name);
    return MP_OK;
}

/* Describes n bytes at an address as a one-dimensional array of bytes. */
static mp_array bytes_at(void *data, const int64_t *n)
{
    mp_array a = mp_array_plain(MP_DTYPE_UINT8, 1, n);
    a.data = data;
    return a;
}

/* Converts a gathered array on the host from the backend's layout to *host. */
static mp_status unpack(const mp_program *p, int tensor, const place *from, void *bytes, mp_array *host, mp_error *err)
{
    MP_CLEARED_BY(room_free) room r = {0};
    const int64_t n = from->n * (mp_dtype_bits(from->array.dtype) / 8);
    mp_array whole = from->array, packed = bytes_at(bytes, &n), there;
    MP_CHECK(take_room(p, tensor, n, &r, err));
    there = bytes_at(r.data, &n);
    whole.data = r.data;
    MP_CHECK(p->backend->upload(p->backend, &packed, &there, err));
    return p->backend->download(p->backend, &whole, host, err);
}

/* Gathers the parts of an array in host memory, on rank `root` or on all ranks. */
static mp_status read_parts(const mp_program *p, mp_execution *e, int tensor, const place *from, int root, mp_array *host,
                            mp_error *err)
{
    mp_communicator *world = mp_execution_company(e).world;
    const int64_t element = mp_dtype_bits(from->array.dtype) / 8, own_bytes = from->own.n * element;
    const mp_process_group group = mp_process_group_along(&p->mesh, MP_DIM_SHARD, world->rank),
                           there = mp_process_group_along(&p->mesh, MP_DIM_SHARD, root);
    const bool wants = root < 0 || root == world->rank;
    if (root >= 0 && there.first != group.first) return MP_OK;
    MP_OWNED char *bytes = mp_alloc((size_t)(wants ? from->n : from->own.n) + 1, (size_t)element);
    MP_ENSURE(bytes, err, MP_NOMEM, "there is no memory for all elements of '%s'", p->model->tensors[tensor].name);
    const mp_shard_view piece = {.whole = bytes, .part = bytes + (wants ? from->own.from * element : 0), .n = from->n};
    mp_array own = bytes_at(from->array.data, &own_bytes), part = bytes_at(piece.part, &own_bytes);
    if (own_bytes) MP_CHECK(p->backend->download(p->backend, &own, &part, err));
    MP_CHECK(mp_communicator_gather(world, &group, root, &piece, element, mp_execution_company(e).timeout,
                                    "bringing parameters together", err));
    return wants ? unpack(p, tensor, from, bytes, host, err) : MP_OK;
}

/* Reads this rank's part of a tensor split over tp, or the whole of any other tensor. */
static mp_status read_own(const mp_program *p, mp_execution *e, int tensor, int array, int root, mp_array *host, mp_error *err)
{
    const int master = mp_optimizer_moments(p->options.optimizer);
    place from;
    if (array || has_master(p, e, tensor))
        MP_CHECK(find_state(p, e, tensor, array ? array - 1 : master, &from, err));
    else
        MP_CHECK(find_values(p, e, tensor, &from, err));
    if (from.is_part) return read_parts(p, e, tensor, &from, root, host, err);
    return root < 0 || root == mp_execution_company(e).world->rank ? p->backend->download(p->backend, &from.array, host, err)
                                                                   : MP_OK;
}

/* Gathers the parts of a tensor split over the ranks of tp. Each rank first reads its own part completely. */
static mp_status read_split(const mp_program *p, mp_execution *e, int tensor, int array, int root, const mp_array *host,
                            mp_error *err)
{
    const mp_tensor *t = &p->model->tensors[tensor];
    mp_communicator *world = mp_execution_company(e).world;
    const mp_process_group group = mp_process_group_along(&p->mesh, MP_DIM_TP, world->rank),
                           there = mp_process_group_along(&p->mesh, MP_DIM_TP, root);
    const int64_t n = mp_tensor_elements(t);
    MP_OWNED float *parts = mp_alloc((size_t)(group.n * n) + 1, sizeof *parts);
    MP_ENSURE(parts, err, MP_NOMEM, "there is no memory for all elements of '%s'", t->name);
    mp_array own = mp_array_plain(MP_DTYPE_FLOAT, t->rank, t->dims);
    own.data = parts + group.index * n;
    const mp_shard_view piece = {.whole = (char *)parts, .part = own.data, .n = group.n * n};
    MP_CHECK(read_own(p, e, tensor, array, -1, &own, err));
    if (root >= 0 && there.first != group.first) return MP_OK;
    MP_CHECK(mp_communicator_gather(world, &group, root, &piece, sizeof *parts, mp_execution_company(e).timeout,
                                    "bringing parameters together", err));
    for (int r = 0; r < group.n && (root < 0 || root == world->rank); r++)
        mp_part_put(t, r, sizeof *parts, parts + r * n, host->data);
    return MP_OK;
}

mp_status mp_held_read(const mp_program *p, mp_execution *e, int tensor, int array, int root, mp_array *host, mp_error *err)
{
    if (p->model->tensors[tensor].part) return read_split(p, e, tensor, array, root, host, err);
    return read_own(p, e, tensor, array, root, host, err);
}

static mp_status write_to(const mp_program *p, int tensor, const place *to, const mp_array *host, mp_error *err)
{
    MP_CLEARED_BY(room_free) room r = {0};
    const int64_t element = mp_dtype_bits(to->array.dtype) / 8;
    mp_array whole = to->array;
    if (!to->is_part) return p->backend->upload(p->backend, host, &whole, err);
    MP_CHECK(take_room(p, tensor, to->n * element, &r, err));
    whole.data = r.data;
    MP_CHECK(p->backend->upload(p->backend, host, &whole, err));
    p->backend->copy(p->backend, to->array.data, r.data + to->own.from * element, to->own.n * element);
    return MP_OK;
}

static mp_status write_own(const mp_program *p, mp_execution *e, int tensor, int array, const mp_array *host, mp_error *err)
{
    const int master = mp_optimizer_moments(p->options.optimizer);
    place to;
    if (array || has_master(p, e, tensor)) {
        MP_CHECK(find_state(p, e, tensor, array ? array - 1 : master, &to, err));
        MP_CHECK(write_to(p, tensor, &to, host, err));
        MP_CHECK(mp_execution_keep_state(e, tensor, err));
    }
    if (array) return MP_OK;
    MP_CHECK(find_values(p, e, tensor, &to, err));
    return write_to(p, tensor, &to, host, err);
}

mp_status mp_held_write(const mp_program *p, mp_execution *e, int tensor, int array, const mp_array *host, mp_error *err)
{
    const mp_tensor *t = &p->model->tensors[tensor];
    mp_array own = mp_array_plain(host->dtype, t->rank, t->dims);
    if (!t->part) return write_own(p, e, tensor, array, host, err);
    MP_OWNED void *part = own.data = mp_alloc((size_t)mp_array_bytes(&own) + 1, 1);
    MP_ENSURE(part, err, MP_NOMEM, "there is no memory for this rank's part of '%s'", t->name);
    mp_part_take(t, mp_execution_position(e)->part_index, mp_dtype_bits(host->dtype) / 8, host->data, part);
    return write_own(p, e, tensor, array, &own, err);
}
