/* test_nccl_alone.c - NCCL with one rank: every operation leaves the values unchanged, call by call and in a recording. One GPU
 * is enough for this test. On backends without streams it is skipped. */
#include "executor/ranks/communicator.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"

enum { N = 1001, CHANNEL = MP_CHANNEL_SECOND_STREAM + 1 };

/* Joins the processes of mpirun, as the replacement of libnccl.so.2 requires; otherwise this process is the only rank. */
static mp_communicator *open_world(void)
{
    static mp_communicator alone = {.name = "alone", .rank = 0, .n = 1};
    mp_communicator *world = NULL;
    mp_error err = {0};
    if (!getenv("OMPI_COMM_WORLD_SIZE")) return &alone;
    if (mp_communicator_open("mpi", &world, &err) != MP_OK) fail_msg("%s", err.message);
    return world;
}

static const mp_backend *device(void)
{
    const mp_backend *b = backend_of_tests();
    if (!b->stream) skip();
    return b;
}

typedef struct operands {
    const mp_backend *backend;
    mp_communicator *devices;
    char *from, *to;
    int64_t bytes;
} operands;

/* Enqueues an operation on a side stream, as a step does, and lets the main stream wait for it. */
static void enqueue(const operands *o, mp_dtype dtype, int operation)
{
    const mp_backend *b = o->backend;
    mp_communicator *c = o->devices;
    mp_message first, second;
    mp_error err = {0};
    mp_status st = b->side_begin(b, CHANNEL, &err);
    if (st != MP_OK) fail_msg("%s", err.message);
    switch (operation) {
    case 0:
        b->copy(b, o->to, o->from, o->bytes);
        st = c->all_reduce(c, dtype, o->to, N, &first, &err);
        break;
    case 1:
        st = c->reduce_scatter(c, dtype, o->from, o->to, N, &first, &err);
        break;
    case 2:
        st = c->all_gather(c, dtype, o->from, o->to, N, &first, &err);
        break;
    case 3:
        b->copy(b, o->to, o->from, o->bytes);
        st = c->broadcast(c, o->to, o->bytes, 0, &first, &err);
        break;
    default:
        st = c->begin_group(c, &err);
        if (st == MP_OK) st = c->send(c, o->from, o->bytes, 0, 0, &first, &err);
        if (st == MP_OK) st = c->receive(c, o->to, o->bytes, 0, 0, &second, &err);
        if (st == MP_OK) st = c->end_group(c, &err);
    }
    if (st == MP_OK) st = b->side_end(b, CHANNEL, 0, &err);
    if (st == MP_OK) st = b->side_wait(b, CHANNEL, 0, &err);
    if (st != MP_OK) fail_msg("operation %d: %s", operation, err.message);
}

static void assert_copied(const operands *o, const char *wanted, const char *what, int operation)
{
    char got[N * 4];
    mp_error err = {0};
    if (o->backend->wait(o->backend, &err) != MP_OK) fail_msg("%s: %s", what, err.message);
    mp_array there = mp_array_plain(MP_DTYPE_UINT8, 1, &o->bytes), host = there;
    there.data = o->to;
    host.data = got;
    if (o->backend->download(o->backend, &there, &host, &err) != MP_OK) fail_msg("%s: %s", what, err.message);
    if (memcmp(got, wanted, (size_t)o->bytes) != 0) fail_msg("%s: operation %d changes the values", what, operation);
    o->backend->fill(o->backend, o->to, 0, o->bytes);
}

TEST(one_rank_keeps_its_values)
{
    const mp_backend *b = device();
    mp_communicator *world = open_world();
    mp_error err = {0};
    float values[N];
    uint16_t halves[N];
    for (int k = 0; k < N; k++) {
        values[k] = (float)(k - N / 2) / 7;
        halves[k] = (uint16_t)(0x3f80 + k % 128);
    }
    if (mp_communicator_join_devices(world, b, &err) != MP_OK) fail_msg("%s", err.message);
    const bool is_twin = !strcmp(world->devices->name, "NCCL 2.0.0"); /* which has no bf16 */
    for (int is_half = 0; is_half <= !is_twin; is_half++) {
        const mp_dtype dtype = is_half ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT;
        operands o = {.backend = b, .devices = world->devices, .bytes = N * (is_half ? 2 : 4)};
        const char *wanted = is_half ? (const char *)halves : (const char *)values;
        o.from = b->allocate(b, o.bytes);
        o.to = b->allocate(b, o.bytes);
        assert_true(o.from && o.to);
        mp_array host = mp_array_plain(MP_DTYPE_UINT8, 1, &o.bytes), there = host;
        host.data = (void *)wanted;
        there.data = o.from;
        if (b->upload(b, &host, &there, &err) != MP_OK) fail_msg("%s", err.message);
        for (int operation = 0; operation < 5; operation++) {
            void *recording;
            b->begin(b, 1, 0, NULL);
            enqueue(&o, dtype, operation);
            assert_copied(&o, wanted, "call by call", operation);
            b->begin(b, 1, 1, NULL);
            if (b->record_begin(b, &err) != MP_OK) fail_msg("%s", err.message);
            enqueue(&o, dtype, operation);
            if (b->record_end(b, &recording, &err) != MP_OK) fail_msg("%s", err.message);
            for (int replay = 0; replay < 2; replay++) {
                b->begin(b, 1, 2, NULL);
                if (b->replay(b, recording, &err) != MP_OK) fail_msg("%s", err.message);
                assert_copied(&o, wanted, "replayed", operation);
            }
            b->discard(b, recording);
        }
        b->release(b, o.from, o.bytes);
        b->release(b, o.to, o.bytes);
    }
    world->devices->close(world->devices);
    world->devices = NULL;
    if (world->close) mp_communicator_close(world);
}
