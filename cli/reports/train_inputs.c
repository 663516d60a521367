/* train_inputs.c - opens the inputs of a training, and warns of weights that the model's file lacks or that have no
 * gradient. */
#include "cli/reports/train_inputs.h"

#include "cli/messages/messages.h"
#include "cli/options/options.h"
#include "executor/data/inputs.h"
#include "executor/workload/workload.h"

void train_inputs_free(train_inputs *in)
{
    mp_parameter_source_free(in->source);
    mp_feed_free(in->feed);
    mp_feed_free(in->test);
}

mp_status train_inputs_open(const options *o, const mp_text_list *files, const ranks *r, train_outcome *t, train_inputs *in,
                            mp_error *err)
{
    const mp_program *program = t->workload.program;
    const uint64_t seed = (uint64_t)o->search.seed;
    const mp_text_list *test = &o->training.test;
    const mp_feed_part all = {.n = 1, .n_batches = 1, .folder = o->training.columns_in};
    mp_rank_place place;
    /* with --resume no weights are drawn, because the saved state contains a value for each parameter */
    MP_CHECK(mp_parameter_source_open(program, t->workload.file, seed, o->training.random_weights || o->training.resume,
                                      &in->source, err));
    mp_parameter_source_count(in->source, &t->n_parameters, &t->n_drawn);
    MP_CHECK(mp_rank_place_of(program, r->world, &place, err));
    mp_feed_part part = mp_inputs_part(program, &place);
    part.folder = o->training.columns_in;
    MP_CHECK(mp_inputs_open_part(program, files->items, files->n, seed, &part, &in->feed, err));
    if (test->n) MP_CHECK(mp_inputs_open_part(program, test->items, test->n, seed, &all, &in->test, err));
    in->seen = (seen_data){.n_data = mp_feed_samples(in->feed), .n_test = in->test ? mp_feed_samples(in->test) : -1};
    if (r->world) MP_CHECK(mp_feed_digest(in->feed, &in->seen.data, err));
    return r->world && in->test ? mp_feed_digest(in->test, &in->seen.test, err) : MP_OK;
}

/* Warns if the file contains values for only some of the weights, because it may be the wrong file. Adapters do not count,
 * because no file contains them. */
static void tell_drawn(const options *o, const train_outcome *t)
{
    if (t->n_drawn && t->n_drawn < t->n_parameters && !o->training.random_weights && !o->training.resume && !o->model.lora.n)
        complain(
            "%s: warning: the file has no values for %zu of %zu parameters, which are drawn from seed %lld (--random-weights: "
            "without this warning)",
            o->operands[0], t->n_drawn, t->n_parameters, (long long)o->search.seed);
}

/* Warns of parameters that influence the loss only through a step function, whose gradient is zero. PyTorch still applies
 * weight decay to them. memplan does not update them. */
static void tell_without_gradient(const options *o, const train_outcome *t, const mp_hyper *hyper)
{
    const mp_model *model = t->workload.program->model;
    const mp_bindings *bound = t->workload.program->bindings;
    size_t n = 0, first = 0;
    for (size_t k = model->n_tensors; k-- > 0;) {
        const mp_tensor *x = &model->tensors[k];
        if (x->role != MP_ROLE_PARAMETER || x->is_frozen || bound->storage[k] < 0 || bound->gradient[k] >= 0) continue;
        n++;
        first = k;
    }
    if (n && hyper->weight_decay > 0)
        complain("%s: warning: no gradient reaches %zu of %zu parameters, the first is '%s': they are neither trained nor "
                 "decayed (PyTorch applies weight decay behind Floor, Sign and similar operators)",
                 o->operands[0], n, t->n_parameters, model->tensors[first].name);
}

void train_inputs_warn(const options *o, const train_outcome *t, const mp_hyper *hyper)
{
    tell_drawn(o, t);
    tell_without_gradient(o, t, hyper);
}
