/* state.c - saves parameters and moments to a file, or with many ranks to parts in a folder, and restores them. */
#include "executor/train/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor/ranks/exchanges.h"
#include "executor/run/held.h"
#include "formats/data/checkpoint.h"

enum {
    ARRAYS = 3, /* maximum number of saved arrays per parameter: its values and two moments */
    METADATA = 5,
    DISK_BYTES_PER_SECOND =
        10000000 /* assumed rate of a slow disk; it determines how long the other ranks wait for a rank that is writing */
};

/* One saved array: the values (`array` 0) or a moment (1, 2) of a tensor, and the rank that writes the array. */
typedef struct item {
    int tensor, array, writer;
    const char *name;
} item;

/* All saved arrays, in the order of the model. */
typedef struct items {
    size_t n;
    item *list;
    int n_writers;
    int64_t most_bytes; /* bytes that the rank with the largest share writes */
} items;

static int64_t bytes_of(const mp_program *p, int tensor)
{
    const mp_tensor *t = &p->model->tensors[tensor];
    return mp_product(mp_tensor_whole_dims(t), 0, t->rank) * (int64_t)sizeof(float);
}

/* Returns the rank that writes a tensor. For a parameter: the holder with the fewest bytes so far. For a buffer: the first
 * holder, because buffers such as running statistics may differ between ranks. */
static int writer_of(const mp_program *p, const mp_holders *holders, const int64_t *bytes, int n_writers, int tensor)
{
    int writer = mp_holders_first(holders, tensor);
    for (int r = writer + 1; r < n_writers && p->model->tensors[tensor].role == MP_ROLE_PARAMETER; r++)
        if (mp_holders_arrays(holders, r, tensor) && bytes[r] < bytes[writer]) writer = r;
    return writer;
}

/* Lists the arrays to save, and assigns each to the rank that writes it. */
static mp_status list_items(const mp_program *p, const mp_holders *holders, int n_writers, mp_pool *pool, items *out,
                            mp_error *err)
{
    *out = (items){.list = mp_pool_alloc(pool, ARRAYS * p->model->n_tensors, sizeof *out->list), .n_writers = n_writers};
    int64_t *bytes = mp_pool_alloc(pool, (size_t)n_writers, sizeof *bytes);
    MP_ENSURE(out->list && bytes, err, MP_NOMEM, "out of memory");
    for (int t = 0; t < (int)p->model->n_tensors; t++) {
        const mp_tensor *x = &p->model->tensors[t];
        const int first = mp_holders_first(holders, t);
        for (int array = 0; first >= 0 && array < mp_holders_arrays(holders, first, t); array++) {
            const int writer = writer_of(p, holders, bytes, n_writers, t);
            bytes[writer] += bytes_of(p, t);
            if (bytes[writer] > out->most_bytes) out->most_bytes = bytes[writer];
            const char *name = array ? mp_pool_format(pool, "optimizer.%d:%s", array, x->name) : x->name;
            MP_ENSURE(name, err, MP_NOMEM, "out of memory");
            out->list[out->n++] = (item){t, array, writer, name};
        }
    }
    return MP_OK;
}

/* ---- saving ---- */

typedef struct saving {
    const mp_program *program;
    mp_execution *execution;
    mp_communicator *world;
    items all;
    mp_named_tensor *tensors; /* the tensors that this rank writes */
    size_t n_tensors;
    mp_metadatum metadata[METADATA];
    size_t n_metadata;
    mp_pool *pool;
} saving;

/* Gathers each array on the rank that writes it. */
static mp_status collect(saving *s, mp_error *err)
{
    const int ranks =
        mp_execution_position(s->execution)
            ->stage_stride; /* number of ranks per pipeline stage; the ranks of a stage have consecutive numbers */
    MP_ENSURE(s->tensors = mp_pool_alloc(s->pool, s->all.n, sizeof *s->tensors), err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < s->all.n; k++) {
        const item *i = &s->all.list[k];
        const mp_tensor *x = &s->program->model->tensors[i->tensor];
        mp_array host = mp_array_plain(MP_DTYPE_FLOAT, x->rank, mp_tensor_whole_dims(x));
        if (i->writer == s->world->rank) {
            host.data = mp_pool_alloc(s->pool, (size_t)mp_array_elements(&host) + 1, sizeof(float));
            MP_ENSURE(host.data, err, MP_NOMEM, "there is no memory for saving '%s'", x->name);
            s->tensors[s->n_tensors++] =
                (mp_named_tensor){i->name, MP_DTYPE_FLOAT, x->rank, mp_tensor_whole_dims(x), host.data};
        }
        if (i->writer / ranks != s->world->rank / ranks)
            continue; /* the rank that writes the tensor belongs to another stage, whose ranks gather the tensor */
        MP_CHECK(mp_held_read(s->program, s->execution, i->tensor, i->array, i->writer, &host, err));
    }
    return MP_OK;
}

/* Waits until all ranks call this function. The timeout includes the time for writing to a slow disk. Returns this rank's
 * failure, if any. */
static mp_status meet(const saving *s, mp_status own, void *word, int64_t bytes, mp_error *err)
{
    const double seconds = mp_execution_company(s->execution).timeout + (double)s->all.most_bytes / DISK_BYTES_PER_SECOND;
    return mp_communicator_meet(s->world, own, word, bytes, seconds, "saving", err);
}

static mp_status write_part(const saving *s, const char *folder, const char *name, char checksum[MP_CHECKSUM_TEXT],
                            mp_error *err)
{
    char path[MP_SAVE_PATH];
    mp_metadatum metadata[METADATA];
    memcpy(metadata, s->metadata, sizeof metadata);
    metadata[s->n_metadata] = (mp_metadatum){"save", name};
    MP_CHECK(mp_checkpoint_part(folder, name, s->world->rank, s->all.n_writers, path, sizeof path, err));
    return mp_safetensors_write_summed(path, s->tensors, s->n_tensors, metadata, s->n_metadata + 1, checksum, err);
}

static mp_status commit(const saving *s, mp_save *save, const char (*checksums)[MP_CHECKSUM_TEXT], mp_error *err)
{
    mp_save_entry *entries = mp_pool_alloc(s->pool, s->all.n, sizeof *entries);
    MP_ENSURE(entries, err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < s->all.n; k++) entries[k] = (mp_save_entry){s->all.list[k].name, s->all.list[k].writer};
    return mp_checkpoint_commit(save, entries, s->all.n, checksums, s->metadata, s->n_metadata, err);
}

/* All ranks write their parts; then rank 0 completes the save. */
static mp_status save_folder(const saving *s, const char *folder, int64_t step, mp_error *err)
{
    MP_CLEARED_BY(mp_checkpoint_end) mp_save save = {0};
    const bool is_first = !s->world->rank;
    char name[MP_SAVE_NAME] = "", checksum[MP_CHECKSUM_TEXT] = "";
    char(*checksums)[MP_CHECKSUM_TEXT] = mp_pool_alloc(s->pool, (size_t)s->world->n, sizeof *checksums);
    mp_status st = is_first ? mp_checkpoint_begin(folder, step, s->all.n_writers, &save, err) : MP_OK;
    memcpy(name, save.name, sizeof name);
    MP_CHECK(meet(s, st, name, sizeof name, err));
    MP_ENSURE(*name && memchr(name, 0, sizeof name) && !strchr(name, '/'), err, MP_IO,
              "rank 0 has not sent the name of the save");
    st = checksums ? write_part(s, folder, name, checksum, err) : MP_NO_MEMORY(err);
    MP_CHECK(meet(s, st, NULL, 0, err));
    MP_CHECK(mp_communicator_exchange(s->world, checksum, sizeof checksum, checksums,
                                      mp_execution_company(s->execution).timeout, "the checksums of a save", err));
    for (int k = 0; k < s->world->n; k++)
        MP_ENSURE(!checksums[k][MP_CHECKSUM_TEXT - 1], err, MP_IO, "rank %d has not sent its checksum", k);
    st = is_first ? commit(s, &save, checksums, err) : MP_OK;
    return meet(s, st, NULL, 0, err);
}

static mp_status save_file(const saving *s, const char *path, mp_error *err)
{
    const bool is_first = !s->world->rank;
    return meet(s, is_first ? mp_safetensors_write(path, s->tensors, s->n_tensors, s->metadata, s->n_metadata, err) : MP_OK,
                NULL, 0, err);
}

mp_status mp_state_save(const char *path, const mp_program *p, mp_execution *e, const mp_execution_options *options,
                        int64_t step, mp_error *err)
{
    char step_text[32], seed_text[32];
    mp_communicator *world = mp_execution_company(e).world;
    const bool is_folder = p->mesh.zero || p->stage || mp_is_folder(path);
    mp_holders holders;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    saving s = {.program = p, .execution = e, .world = world, .pool = pool};
    snprintf(step_text, sizeof step_text, "%lld", (long long)step);
    snprintf(seed_text, sizeof seed_text, "%llu", (unsigned long long)options->seed);
    s.metadata[s.n_metadata++] = (mp_metadatum){"model", p->model->name};
    s.metadata[s.n_metadata++] = (mp_metadatum){"optimizer", mp_optimizer_name(p->options.optimizer)};
    s.metadata[s.n_metadata++] = (mp_metadatum){"seed", seed_text};
    s.metadata[s.n_metadata++] = (mp_metadatum){"step", step_text};
    MP_ENSURE(pool, err, MP_NOMEM, "there is no memory for saving");
    MP_CHECK(mp_holders_of(p, e, true, pool, &holders, err));
    MP_CHECK(list_items(p, &holders, is_folder ? world->n : 1, pool, &s.all, err));
    MP_CHECK(collect(&s, err));
    return is_folder ? save_folder(&s, path, step, err) : save_file(&s, path, err);
}

/* ---- resuming ---- */

static mp_status match(const mp_checkpoint *file, const char *key, const char *wanted, mp_error *err)
{
    const char *is = mp_checkpoint_metadatum(file, key);
    if (!is) return MP_FAIL(err, MP_PARSE, "the file does not name its %s, so it is not a saved training state", key);
    if (!strcmp(is, wanted)) return MP_OK;
    return MP_FAIL(err, MP_PARSE, "the file was saved with the %s %.64s, but this training has %s", key, is, wanted);
}

static mp_status restore(const mp_checkpoint *file, const mp_program *p, mp_execution *e, const item *i, mp_error *err)
{
    const mp_tensor *x = &p->model->tensors[i->tensor];
    mp_array host = mp_array_plain(MP_DTYPE_FLOAT, x->rank, mp_tensor_whole_dims(x));
    const mp_named_tensor *saved = mp_checkpoint_find(file, i->name);
    MP_ENSURE(saved, err, MP_PARSE, "the file lacks '%s'", i->name);
    bool same = saved->dtype == MP_DTYPE_FLOAT && saved->rank == x->rank;
    for (int d = 0; same && d < x->rank; d++) same = saved->dims[d] == mp_tensor_whole_dims(x)[d];
    MP_ENSURE(same, err, MP_PARSE, "'%s' has another type or shape in the file", i->name);
    MP_OWNED float *values = host.data = mp_alloc((size_t)mp_array_elements(&host), sizeof *values);
    MP_ENSURE(values, err, MP_NOMEM, "there is no memory for '%s'", i->name);
    /* the values are copied, because the data in the file may be unaligned */
    memcpy(host.data, saved->data, (size_t)mp_array_bytes(&host));
    return mp_held_write(p, e, i->tensor, i->array, &host, err);
}

/* Checks that all ranks resume from the same state: the same step of the same save. */
static mp_status compare(const mp_checkpoint *file, mp_execution *e, int64_t step, mp_error *err)
{
    mp_communicator *world = mp_execution_company(e).world;
    const char *save = mp_checkpoint_metadatum(file, "save");
    const mp_fact facts[] = {{"step in the saved state", &step, sizeof step},
                             {"saved state", save ? save : "", save ? strlen(save) : 0}};
    if (world->n == 1) return MP_OK;
    return mp_communicator_agree(world, facts, sizeof facts / sizeof *facts, mp_execution_company(e).timeout, err);
}

mp_status mp_state_resume(const char *path, const mp_program *p, mp_execution *e, const mp_execution_options *options,
                          int64_t *step, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_OWNED_BY(mp_checkpoint_close) mp_checkpoint *file = NULL;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    char seed[32], *end;
    mp_holders holders;
    items all;
    MP_ENSURE(pool, err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_checkpoint_open(path, &file, err));
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)options->seed);
    MP_CHECK(match(file, "model", p->model->name, err));
    MP_CHECK(match(file, "optimizer", mp_optimizer_name(p->options.optimizer), err));
    MP_CHECK(match(file, "seed", seed, err));
    const char *text = mp_checkpoint_metadatum(file, "step");
    const int64_t at = text ? strtoll(text, &end, 10) : -1;
    MP_ENSURE(at >= 0 && !*end, err, MP_PARSE, "the file does not name the step at which it was saved");
    MP_CHECK(mp_holders_of(p, e, false, pool, &holders, err));
    MP_CHECK(list_items(p, &holders, 1, pool, &all, err));
    for (size_t k = 0; k < all.n; k++) MP_CHECK(restore(file, p, e, &all.list[k], err));
    MP_CHECK(compare(file, e, at, err));
    *step = at;
    return MP_OK;
}
