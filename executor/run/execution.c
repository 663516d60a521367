/* execution.c - runs the steps of a plan, pass by pass. */
#include "executor/run/execution.h"

#include "estimator/base/clock.h"
#include "executor/program/program_nodes.h"
#include "executor/run/execution_state.h"
#include "executor/run/inspection.h"
#include "executor/run/rank_results.h"
#include "executor/run/stage_gathers.h"

static int n_passes(const mp_program *p)
{
    return p->options.accumulate > 1 ? p->options.accumulate : 1;
}

mp_status mp_execution_new(mp_program *program, const mp_plan *plan, const mp_execution_options *options, mp_execution **out,
                           mp_error *err)
{
    MP_OWNED_BY(mp_execution_free) mp_execution *e = mp_alloc(1, sizeof *e);
    MP_ENSURE(e, err, MP_NOMEM, "out of memory");
    *e = (mp_execution){.program = program, .plan = plan, .options = *options, .pending = -1};
    mp_states_init(&e->states, options->plain_files);
    MP_ENSURE(e->pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
    MP_CHECK(program->backend->open(program->backend, err));
    e->updates = mp_pool_alloc(e->pool, program->model->n_tensors, sizeof *e->updates);
    e->seconds = mp_pool_alloc(e->pool, program->graph->n_nodes, sizeof *e->seconds);
    MP_ENSURE(e->seconds && e->updates, err, MP_NOMEM, "out of memory");
    const size_t n = (size_t)n_passes(program);
    e->losses = mp_pool_alloc(e->pool, n, sizeof *e->losses);
    e->all_losses = mp_pool_alloc(e->pool, n * (size_t)(options->world ? options->world->n : 1), sizeof *e->all_losses);
    MP_ENSURE(e->losses && e->all_losses, err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_addresses_of(program, plan, &e->options, e->pool, &e->at, err));
    MP_CHECK(mp_clipping_open(program, options->world ? options->world->n : 1, e->pool, &e->clipping, err));
    const bool chains = !options->one_by_one && !options->profile && !program->stage;
    MP_CHECK(mp_calls_of(&e->at, options->one_by_one, program->backend->side_begin && !options->profile, options->profile,
                         chains, e->pool, &e->calls, err));
    MP_CHECK(mp_channels_open(&e->at, options, e->pool, &e->channels, err));
    if (program->stage) MP_CHECK(mp_stage_turns_of(&e->at, &e->calls, e->pool, &e->turns, err));
    if (program->stage) MP_CHECK(mp_stage_gathers_of(&e->channels.ranks, e->turns.turn_around, e->pool, err));
    e->records =
        program->backend->record_begin && !options->by_call && !options->profile && !options->poison && !options->guards;
    *out = e;
    e = NULL;
    return MP_OK;
}

void mp_execution_free(mp_execution *e)
{
    if (!e) return;
    const mp_backend *b = e->program->backend;
    for (int k = 0; k < MP_RUN_KINDS; k++)
        if (e->kinds[k].recording) b->discard(b, e->kinds[k].recording);
    mp_channels_close(&e->channels);
    mp_states_clear(&e->states);
    mp_addresses_free(&e->at);
    mp_pool_free(e->pool);
    mp_free(e);
}

static void run_updates(mp_execution *e, const mp_pass_call *call)
{
    const mp_program *p = e->program;
    for (size_t k = 0; k < call->n_steps; k++) {
        const mp_ready_step *r = &e->at.steps[call->step + k];
        const mp_binding *b = mp_program_binding(p, r->node);
        if (r->old_state && r->old_state != r->state)
            p->backend->copy(p->backend, r->state, r->old_state, p->graph->storages[b->state].payload_bytes);
        if (r->old_target)
            p->backend->copy(p->backend, r->target, r->old_target, r->n_updated * mp_dtype_bits(p->options.dtype) / 8);
        e->updates[k] = (mp_update){.dtype = p->bindings->dtype[b->parameter],
                                    .n = r->n_updated,
                                    .parameter = r->target,
                                    .gradient = r->source,
                                    .state = (float *)r->state,
                                    .clip = (const float *)r->clip};
    }
    p->backend->update(p->backend, e->updates, call->n_steps, &e->factors);
}

static mp_status run_clip(mp_execution *e, const mp_ready_step *r, mp_error *err)
{
    const mp_company company = mp_execution_company(e);
    return mp_clipping_run(&e->clipping, &e->at, r, company.world, company.timeout, err);
}

/* Gives the operands of a step their addresses and the parameters of the pass. */
static mp_call_chain_link bind(mp_execution *e, const mp_ready_step *r, int64_t pass, bool added)
{
    const mp_call_chain_link link = mp_ready_step_bind(e->program, r);
    link.x->run = (mp_run){.seed = e->options.seed,
                           .step = (uint32_t)pass,
                           .first_run = r->first_run,
                           .group = mp_kernel_ranks_group(&e->channels.ranks.of_parts),
                           .samples = mp_kernel_ranks_group(&e->channels.ranks.of_samples)};
    if (!added || !mp_program_keeps_gradients(e->program)) link.x->adds = mp_program_binding(e->program, r->node)->adds;
    return link;
}

static mp_status run_operator(mp_execution *e, const mp_ready_step *r, int64_t pass, bool added, mp_error *err)
{
    mp_operands *x = &mp_program_node_at(e->program, r->node)->operands;
    const uint64_t all = x->adds;
    const mp_call_chain_link link = bind(e, r, pass, added);
    const mp_status st = mp_call_run(e->program->backend, link.call, x, err);
    x->adds = all;
    return st;
}

static mp_status run_chain(mp_execution *e, const mp_pass_call *call, int64_t pass, bool added, mp_error *err)
{
    const mp_backend *b = e->program->backend;
    const mp_call_chain *chain = &call->chain->chain;
    uint64_t all[MP_CHAIN_LINKS];
    for (size_t k = 0; k < chain->n; k++) {
        all[k] = chain->links[k].x->adds;
        bind(e, &e->at.steps[call->step + k], pass, added);
    }
    if (b->use) b->use(b);
    const mp_status st = call->chain->run(chain, err);
    for (size_t k = 0; k < chain->n; k++) chain->links[k].x->adds = all[k];
    return st;
}

static void run_accumulate(mp_execution *e, const mp_ready_step *r)
{
    const mp_program *p = e->program;
    const mp_binding *b = mp_program_binding(p, r->node);
    const int64_t bytes = b->bytes ? b->bytes : p->graph->storages[b->target].payload_bytes;
    mp_dtype dtype = p->options.dtype;
    if (b->adds)
        p->backend->add(p->backend, dtype, bytes / (mp_dtype_bits(dtype) / 8), r->source, r->target);
    else if (r->source != r->target)
        p->backend->copy(p->backend, r->target, r->source, bytes);
}

/* Adds the seconds of a call to its nodes. The updates of one call share the seconds in proportion to their sizes. */
static void count_seconds(mp_execution *e, const mp_pass_call *call, double seconds)
{
    const mp_program *p = e->program;
    double total = 0;
    if (call->is_transfer)
        return; /* a node's seconds contain its computing time only; copies of its output back to the device do not count */
    for (int turn = 0; turn < 2; turn++) {
        for (size_t k = 0; k < call->n_steps; k++) {
            const int node = e->at.steps[call->step + k].node, parameter = mp_program_binding(p, node)->parameter;
            const double size = call->n_steps > 1 ? (double)mp_stored_elements(&p->model->tensors[parameter]) : 1;
            if (turn)
                e->seconds[node] += seconds * size / total;
            else
                total += size;
        }
    }
}

/* Reads the device timestamps of a pass and adds the seconds to the nodes. */
static mp_status read_times(mp_execution *e, mp_error *err)
{
    const mp_backend *b = e->program->backend;
    for (size_t k = 0; e->options.profile && b->note_time && k < e->calls.n; k++) {
        double seconds;
        MP_CHECK(b->seconds_between(b, 2 * (int)k, 2 * (int)k + 1, &seconds, err));
        count_seconds(e, &e->calls.list[k], seconds);
    }
    return MP_OK;
}

static mp_status end_call(mp_execution *e, const mp_pass_call *call, mp_error *err)
{
    const size_t end = call->step + call->n_steps;
    for (size_t t = call->step; t < end; t++) {
        if (e->options.guards) MP_CHECK(mp_addresses_check_guards(&e->at, (int)t, err));
        /* a later step of a chain may have written its result over an instance that dies with an earlier step */
        if (e->options.poison && (!call->chain || t + 1 == end)) mp_addresses_poison(&e->at, (int)t);
    }
    return MP_OK;
}

static mp_status run_call(mp_execution *e, const mp_pass_call *call, int64_t pass, int kind, mp_error *err)
{
    const mp_ready_step *r = &e->at.steps[call->step];
    if (call->is_transfer) return mp_channels_issue(&e->channels, call, err);
    if (call->chain) return run_chain(e, call, pass, kind & MP_RUN_ADDS, err);
    switch (mp_program_binding(e->program, r->node)->task) {
    case MP_TASK_FORWARD:
    case MP_TASK_BACKWARD:
        MP_CHECK(run_operator(e, r, pass, kind & MP_RUN_ADDS, err));
        break;
    case MP_TASK_ACCUMULATE:
        run_accumulate(e, r);
        break;
    case MP_TASK_COLLECTIVE: /* collectives are not executed here; the network channel (rank_channel.c) runs them */
        break;
    case MP_TASK_CLIP:
        if (kind & MP_RUN_UPDATES) MP_CHECK(run_clip(e, r, err));
        break;
    case MP_TASK_UPDATE:
        if (kind & MP_RUN_UPDATES) run_updates(e, call);
        break;
    }
    return MP_OK;
}

static mp_status run_watched(mp_execution *e, const mp_pass_call *call, int64_t pass, int kind, mp_error *err)
{
    e->watch->pass = pass;
    for (size_t k = 0; call->chain && k < call->n_steps; k++) { /* every step of a chain is observed */
        const mp_ready_step *r = &e->at.steps[call->step + k];
        MP_CHECK(mp_watch_before(e->watch, r, err));
        MP_CHECK(run_operator(e, r, pass, kind & MP_RUN_ADDS, err));
        MP_CHECK(mp_watch_after(e->watch, r, err));
    }
    if (call->chain) return MP_OK;
    MP_CHECK(mp_watch_before(e->watch, &e->at.steps[call->step], err));
    MP_CHECK(run_call(e, call, pass, kind, err));
    if (call->is_update && !(kind & MP_RUN_UPDATES)) return MP_OK;
    for (size_t k = 0; k < call->n_steps; k++) MP_CHECK(mp_watch_after(e->watch, &e->at.steps[call->step + k], err));
    return MP_OK;
}

/* Runs a call on the main stream, or enqueues it on its channel if it is an update on the second stream. */
static mp_status run_or_issue(mp_execution *e, const mp_pass_call *call, int64_t pass, int kind, mp_error *err)
{
    const mp_backend *b = e->program->backend;
    if (call->is_transfer) return call->is_of_update && !(kind & MP_RUN_UPDATES) ? MP_OK : run_call(e, call, pass, kind, err);
    const bool issued = call->channel != MP_CHANNEL_COMPUTE && (kind & MP_RUN_UPDATES);
    if (issued) MP_CHECK(b->side_begin(b, call->channel, err));
    const mp_status ran = (e->watch ? run_watched : run_call)(e, call, pass, kind, err);
    if (issued)
        MP_CHECK(b->side_end(b, call->channel, call->mark,
                             /* side_end is called even after a failure, because every section between side_begin and side_end
                              * must end */
                             ran == MP_OK ? err : NULL));
    return ran;
}

/* Waits for an issued call. In a pass without updates, update calls were not issued, so the wait for them is skipped. */
static mp_status wait_for(mp_execution *e, const mp_pass_call *call, int kind, mp_error *err)
{
    const mp_backend *b = e->program->backend;
    if (call->is_of_update && !(kind & MP_RUN_UPDATES)) return MP_OK;
    return call->is_transfer ? mp_channels_wait(&e->channels, call, err) : b->side_wait(b, call->channel, call->mark, err);
}

/* Runs calls [from_call, to_call) of the plan. The instances whose lifetime ends with a step are poisoned (filled with NaNs).
 * If the step runs beside others, they are poisoned only after the wait for the step. */
static mp_status run_calls(mp_execution *e, int64_t pass, int kind, size_t from_call, size_t to_call, mp_error *err)
{
    const mp_backend *b = e->program->backend;
    e->channels.ranks.adds = kind & MP_RUN_ADDS;
    const bool noted = e->options.profile && b->note_time, clocked = e->options.profile && !noted;
    for (size_t k = from_call; k < to_call; k++) {
        const mp_pass_call *call = &e->calls.list[k];
        const double from = clocked ? mp_clock_now() : 0;
        if (noted) MP_CHECK(b->note_time(b, 2 * (int)k, err));
        mp_channels_note(&e->channels, call, false);
        MP_CHECK(run_or_issue(e, call, pass, kind, err));
        mp_channels_note(&e->channels, call, true);
        for (size_t i = 0; i < call->n_awaited; i++) MP_CHECK(wait_for(e, &e->calls.list[call->awaited[i]], kind, err));
        if (noted) MP_CHECK(b->note_time(b, 2 * (int)k + 1, err));
        if (clocked) {
            MP_CHECK(b->wait(b, err));
            count_seconds(e, call, mp_clock_now() - from);
        }
        MP_CHECK(mp_channels_advance(&e->channels, err));
        MP_CHECK(end_call(e, call, err));
    }
    return to_call < e->calls.n ? MP_OK : mp_channels_end_pass(&e->channels, true, kind & MP_RUN_UPDATES, err);
}

static mp_status record(mp_execution *e, int64_t pass, int kind, mp_error *err)
{
    const mp_backend *b = e->program->backend;
    mp_status st = b->record_begin(b, err), ended;
    if (st != MP_OK) return st;
    st = run_calls(e, pass, kind, 0, e->calls.n, err);
    ended = b->record_end(b, &e->kinds[kind].recording, st == MP_OK ? err : NULL);
    return st == MP_OK ? ended : st;
}

/* Begins a pass, or one turn of a pipeline stage, and returns the kind of pass. `update` is the training step that the updates
 * belong to; < 0: the pass has no updates. */
static int begin_pass(mp_execution *e, int64_t pass, bool added, int64_t update)
{
    const mp_backend *b = e->program->backend;
    if (update >= 0) e->factors = mp_update_factors_at(&e->options.hyper, update);
    b->begin(b, e->options.seed, (uint32_t)pass, update >= 0 ? &e->factors : NULL);
    return (added ? MP_RUN_ADDS : 0) | (update >= 0 ? MP_RUN_UPDATES : 0);
}

/* Runs one pass through the network. */
static mp_status run_pass(mp_execution *e, int64_t pass, bool added, int64_t update, mp_error *err)
{
    const mp_backend *b = e->program->backend;
    const int kind = begin_pass(e, pass, added, update);
    mp_run_kind *k = &e->kinds[kind];
    if (!e->records || !k->has_run) {
        k->has_run = true;
        return run_calls(e, pass, kind, 0, e->calls.n, err);
    }
    if (k->recording)
        mp_channels_replay(&e->channels, kind & MP_RUN_UPDATES);
    else
        MP_CHECK(record(e, pass, kind, err));
    return b->replay(b, k->recording, err);
}

mp_company mp_execution_company(const mp_execution *e)
{
    const mp_collectives *c = &e->channels.ranks.collectives;
    return (mp_company){e->options.world ? e->options.world : c->world, c->timeout};
}

/* Waits until the pass has run, so that failures are detected, and reads the loss if this rank computes it. */
static mp_status read_loss(mp_execution *e, int64_t pass, mp_error *err)
{
    const mp_program *p = e->program;
    const int storage = p->bindings->storage[p->bindings->loss];
    mp_array there = mp_array_plain(MP_DTYPE_FLOAT, 0, NULL), host = there;
    if (storage < 0) return MP_OK;
    there.data = e->at.fixed + e->at.fixed_at[storage];
    host.data = &e->losses[pass];
    MP_CHECK(mp_rank_channel_settle(&e->channels.ranks, err));
    MP_CHECK(mp_rank_channel_settle(&e->channels.ranks, err));
    return p->backend->download(p->backend, &there, &host, err);
}

static mp_status fill_inputs(mp_execution *e, int64_t pass, mp_fill_inputs fill, void *data, mp_error *err)
{
    const double from = mp_clock_now();
    MP_CHECK(fill(data, pass, e, err));
    e->input_seconds += mp_clock_now() - from;
    return MP_OK;
}

static int64_t pass_of_all(const mp_execution *e, int64_t pass)
{
    return pass * e->at.place.n_data + e->at.place.data_index;
}

/* Runs the turns of a pipeline stage: a forward of each micro-batch, and later its backward. */
static mp_status run_turns(mp_execution *e, int64_t step, mp_fill_inputs fill, void *data, mp_error *err)
{
    mp_stage_turns *turns = &e->turns;
    int64_t n_back = 0;
    for (size_t k = 0; k < turns->n; k++) {
        const mp_turn *turn = &turns->list[k];
        const bool is_back = turn->pass != MP_PASS_FORWARD, is_last = k + 1 == turns->n,
                   follows_back = k && turns->list[k - 1].pass != MP_PASS_FORWARD;
        const int64_t pass = step * n_passes(e->program) + turn->micro_batch;
        mp_stage_turns_enter(turns, turn);
        if (is_back && follows_back) MP_CHECK(mp_stage_gathers_run(&e->channels.ranks, err));
        if (!is_back) MP_CHECK(fill_inputs(e, pass, fill, data, err));
        const int kind = begin_pass(e, pass_of_all(e, pass), is_back && n_back++ > 0, is_last ? step : -1);
        MP_CHECK(run_calls(e, pass_of_all(e, pass), kind, is_back ? turns->first_back : 0,
                           is_back ? e->calls.n : turns->first_back, err));
        MP_CHECK(mp_rank_channel_end_turn(&e->channels.ranks, is_last, err));
        if (is_back != turns->loss_is_ahead) MP_CHECK(read_loss(e, turn->micro_batch, err));
    }
    return MP_OK;
}

static void leave(const mp_backend **b)
{
    (*b)->leave(*b);
}

mp_status mp_execution_step(mp_execution *e, int64_t step, mp_fill_inputs fill, void *data, double *loss, mp_error *err)
{
    const int n = n_passes(e->program);
    bool forward = e->program->options.fuse == MP_FUSE_FORWARD;
    MP_CLEARED_BY(leave) const mp_backend *b = e->program->backend;
    double sum;
    e->input_seconds = 0;
    b->enter(b);
    if (e->program->stage) MP_CHECK(run_turns(e, step, fill, data, err));
    for (int k = 0; !e->program->stage && k < n; k++) {
        int64_t pass = step * n + k, update = k == n - 1 ? step : -1;
        if (forward) update = k == 0 ? e->pending : -1;
        MP_CHECK(fill_inputs(e, pass, fill, data, err));
        MP_CHECK(run_pass(e, pass_of_all(e, pass), k > 0, update, err));
        if (forward) e->pending = k == n - 1 ? step : update >= 0 ? -1 : e->pending;
        MP_CHECK(read_loss(e, k, err));
        MP_CHECK(read_times(e, err));
    }
    MP_CHECK(mp_rank_losses(&e->at, e->options.world, mp_execution_timeout(e), e->losses, (size_t)n, e->all_losses, &sum, err));
    *loss = sum / (n * e->at.place.n_data);
    return MP_OK;
}

void mp_execution_watch(mp_execution *e, mp_watch *watch)
{
    e->watch = watch;
}

mp_status mp_execution_flush(mp_execution *e, mp_error *err)
{
    MP_CLEARED_BY(leave) const mp_backend *b = e->program->backend;
    b->enter(b);
    if (e->pending >= 0) e->factors = mp_update_factors_at(&e->options.hyper, e->pending);
    for (size_t k = 0; e->pending >= 0 && k < e->calls.n; k++) {
        const mp_pass_call *call = &e->calls.list[k];
        const mp_ready_step *r = &e->at.steps[call->step];
        if (mp_ready_step_does(r, e->program, MP_TASK_CLIP)) MP_CHECK(run_clip(e, r, err));
        if (call->is_update) run_updates(e, call);
        if (!r->is_of_state) continue;
        MP_CHECK(mp_channels_issue(&e->channels, call, err));
        MP_CHECK(mp_channels_wait(&e->channels, call, err));
    }
    if (e->pending >= 0) MP_CHECK(mp_channels_end_pass(&e->channels, false, true, err));
    MP_CHECK(b->wait(b, err)); /* waits for the updates, because they read e->factors, which the next pass overwrites */
    e->pending = -1;
    return MP_OK;
}
