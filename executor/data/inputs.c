/* inputs.c - describes the inputs of a model to the data source (as slots of a feed), and copies batches of data into the
 * inputs. */
#include "executor/data/inputs.h"

#include "estimator/model/order.h"
#include "executor/data/input_roles.h"
#include "executor/program/parts.h"

/* True for an input of the network, even if only another stage of a pipeline reads it. */
static bool is_fed(const mp_program *p, int tensor)
{
    const mp_tensor *t = &p->model->tensors[tensor];
    return t->role == MP_ROLE_DATA && t->producer < 0 && (mp_program_has(p, tensor) || mp_program_lacks(p, tensor));
}

static mp_feed_fill fill_of(const mp_input_role *role)
{
    if (role->kind == MP_INPUT_POSITIONS) return MP_FEED_ASCENDING;
    return role->kind == MP_INPUT_MASK || role->kind == MP_INPUT_LENGTHS ? MP_FEED_FIXED : MP_FEED_RANDOM;
}

static mp_feed_slot slot_of(const mp_program *program, int tensor, const mp_input_role *role)
{
    const mp_model *model = program->model;
    const mp_tensor *t = &model->tensors[tensor];
    const bool is_target = role->kind == MP_INPUT_TARGET;
    const mp_operator *loss = is_target && role->op >= 0 ? &model->operators[role->op] : NULL;
    return (mp_feed_slot){.name = t->name,
                          .dtype = t->dtype,
                          .rank = t->rank,
                          .dims = mp_tensor_whole_dims(t),
                          .n_values = t->dtype == MP_DTYPE_BOOL ? 2 : role->n_values,
                          .is_elsewhere = mp_program_lacks(program, tensor),
                          .is_target = is_target,
                          .ignores = loss && mp_operator_attribute(loss, "ignore_index"),
                          .ignored = loss ? mp_operator_int(loss, "ignore_index", 0) : 0,
                          .fill = fill_of(role),
                          .fixed = role->fixed};
}

mp_status mp_inputs_open_feed(const mp_program *program, const char *const *sources, size_t n_sources, uint64_t seed,
                              mp_feed **out, mp_error *err)
{
    return mp_inputs_open_part(program, sources, n_sources, seed, &(mp_feed_part){0, 1, 1, NULL}, out, err);
}

mp_feed_part mp_inputs_part(const mp_program *program, const mp_rank_position *place)
{
    const int n = program->options.accumulate;
    return (mp_feed_part){.index = place->data_index, .n = place->n_data, .n_batches = n > 1 ? n : 1};
}

mp_status mp_inputs_open_part(const mp_program *program, const char *const *sources, size_t n_sources, uint64_t seed,
                              const mp_feed_part *part, mp_feed **out, mp_error *err)
{
    const mp_model *m = program->model;
    MP_CLEARED_BY(mp_consumers_free) mp_consumers consumers = {0};
    MP_OWNED mp_feed_slot *slots = mp_alloc(m->n_tensors, sizeof *slots);
    size_t n = 0;
    MP_ENSURE(slots, err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_model_consumers(m, &consumers, err));
    for (size_t t = 0; t < m->n_tensors; t++) {
        if (!is_fed(program, (int)t)) continue;
        mp_input_role role;
        MP_CHECK(mp_input_role_of(m, &consumers, (int)t, &role, err));
        slots[n++] = slot_of(program, (int)t, &role);
    }
    return mp_feed_open_part(slots, n, sources, n_sources, seed, part, out, err);
}

/* Lists the data inputs of this pipeline stage: their row-major arrays from the feed (`plain`), and their layouts in the
 * backend's memory. */
static mp_status list_inputs(mp_input_filler *f, mp_array *plain, mp_error *err)
{
    const mp_model *m = f->program->model;
    for (size_t t = 0; t < m->n_tensors; t++) {
        if (!is_fed(f->program, (int)t) || mp_program_lacks(f->program, (int)t)) continue;
        plain[f->n] = mp_whole_array(&m->tensors[t]);
        f->any_in_parts |= m->tensors[t].part != NULL;
        MP_CHECK(mp_program_array(f->program, (int)t, &f->there[f->n], err));
        f->tensors[f->n++] = (int)t;
    }
    return MP_OK;
}

mp_status mp_input_filler_new(const mp_program *program, mp_feed *feed, mp_input_filler *out, mp_error *err)
{
    const size_t n = program->model->n_tensors;
    MP_CLEARED_BY(mp_input_filler_free) mp_input_filler f = {.program = program, .feed = feed};
    mp_array *plain;
    *out = (mp_input_filler){0};
    MP_ENSURE(f.pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
    f.rows = mp_pool_alloc(f.pool, n, sizeof *f.rows);
    f.parts = mp_pool_alloc(f.pool, n, sizeof *f.parts);
    f.tensors = mp_pool_alloc(f.pool, n, sizeof *f.tensors);
    f.there = mp_pool_alloc(f.pool, n, sizeof *f.there);
    plain = mp_pool_alloc(f.pool, n, sizeof *plain);
    MP_ENSURE(f.rows && f.parts && f.tensors && f.there && plain, err, MP_NOMEM, "out of memory");
    MP_CHECK(list_inputs(&f, plain, err));
    if (!f.any_in_parts) MP_CHECK(mp_prefetch_new(program->backend, feed, plain, f.there, f.n, &f.prefetch, err));
    for (size_t k = 0; !f.prefetch && k < f.n; k++) {
        const mp_tensor *t = &program->model->tensors[f.tensors[k]];
        f.rows[k] = mp_pool_alloc(f.pool, (size_t)mp_array_bytes(&plain[k]) + 1, 1);
        f.parts[k] = mp_pool_alloc(f.pool, t->part ? (size_t)mp_tensor_bytes(t) + 1 : 1, 1);
        MP_ENSURE(f.rows[k] && f.parts[k], err, MP_NOMEM, "there is no memory for a batch of '%s'",
                  program->model->tensors[f.tensors[k]].name);
    }
    *out = f;
    f = (mp_input_filler){0};
    return MP_OK;
}

void mp_input_filler_free(mp_input_filler *filler)
{
    mp_prefetch_free(filler->prefetch);
    mp_pool_free(filler->pool);
    *filler = (mp_input_filler){0};
}

mp_status mp_inputs_fill(void *data, int64_t micro_batch, mp_execution *execution, mp_error *err)
{
    mp_input_filler *f = data;
    const mp_backend *b = f->program->backend;
    for (size_t k = 0; k < f->n; k++) MP_CHECK(mp_execution_tensor(execution, f->tensors[k], &f->there[k], err));
    if (f->prefetch) return mp_prefetch_take(f->prefetch, micro_batch, f->there, err);
    mp_feed_batch(f->feed, micro_batch, f->rows);
    for (size_t k = 0; k < f->n; k++) {
        const mp_tensor *t = &f->program->model->tensors[f->tensors[k]];
        mp_array host = mp_array_plain(t->dtype, t->rank, t->dims);
        host.data = t->part ? f->parts[k] : f->rows[k];
        if (t->part)
            mp_part_take(t, mp_execution_position(execution)->part_index, mp_dtype_bits(t->dtype) / 8, f->rows[k], host.data);
        MP_CHECK(b->upload(b, &host, &f->there[k], err));
    }
    return MP_OK;
}
