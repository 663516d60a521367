/* cmd_train.c - the command train: trains a model twice, with everything kept and by the plan, and compares the results. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/messages/interrupt.h"
#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/messages/rank_interrupt.h"
#include "cli/messages/terminal.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/options/outputs.h"
#include "cli/options/picture_file.h"
#include "cli/reports/pipeline.h"
#include "cli/reports/plan.h"
#include "cli/reports/progress.h"
#include "cli/reports/train_ranks.h"
#include "cli/reports/train_report.h"
#include "estimator/base/clock.h"
#include "executor/data/inputs.h"
#include "executor/run/execution.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_mesh.h"
#include "formats/base/file.h"
#include "formats/canvas/canvas.h"
#include "formats/pages/run_trace.h"
#include "memplan/arena.h"
#include "memplan/budget.h"
#include "memplan/pictures/loss_picture.h"
#include "memplan/solver.h"
#include "memplan/workloads/row_chunks.h"

/* STEPS: default of --steps. SILENT_SECONDS: default of --timeout for the ranks that collect a trace */
enum { STEPS = 10, SILENT_SECONDS = 600 };

typedef struct step_progress {
    const char *what; /* name of the current run in the progress line: "keep-all", "plan" */
    bool shows, any;
    double start, shown_at; /* in seconds of mp_clock_now */
    log_times logs;
    /* message with which the process ends if a signal arrives and the current step does not end within the grace time */
    const char *late;
    unsigned grace;               /* grace time in seconds: 1, or if work would be lost 1 plus the time of a step */
    bool saves, has_saved, ended; /* ended: true after a signal has arrived; the training then ends after the present step */
    bool is_rank;                 /* true: the process is one of several ranks, so its messages are about ranks */
} step_progress;

#define LATE "memplan: stopped in the middle of a step that did not end; "
#define LATE_RANKS "memplan: the launcher ends the ranks before the step has ended; "
#define LATE_SAVING "memplan: the launcher ends the ranks while they save; "
#define NOT_YET "nothing was saved yet\n"
#define NOTHING "nothing was to be saved\n"
#define WHOLE "what was saved last is whole\n"

/* Sets the message with which the process ends if a signal arrives and the step does not end in time. */
static void set_late(step_progress *p, const char *sentence)
{
    if (p->is_rank)
        rank_interrupt_late(sentence);
    else
        interrupt_force(sentence, p->grace);
}

/* Called before and after saving. While the process saves, signals do not end it. The launcher may still kill a rank. */
static void around_saving(bool begins, void *data)
{
    step_progress *p = data;
    if (begins) {
        set_late(p, !p->is_rank ? NULL : p->has_saved ? LATE_SAVING WHOLE : LATE_SAVING NOT_YET);
        return;
    }
    p->has_saved = true;
    p->late = p->is_rank ? LATE_RANKS WHOLE : LATE WHOLE;
    set_late(p, p->ended ? NULL : p->late);
}

static bool show_step(const mp_train_progress *now, void *data)
{
    step_progress *p = data;
    if (p->saves && (unsigned)now->seconds + 2 > p->grace) p->grace = (unsigned)now->seconds + 2;
    p->ended = p->is_rank ? rank_interrupt_asked() : interrupt_asked();
    if (!p->ended || !p->is_rank || !p->saves) set_late(p, p->ended ? NULL : p->late);
    if (p->ended) return false;
    const double clock = mp_clock_now();
    const bool is_due = log_is_due(&p->logs, clock - p->start), is_shown = p->shows && clock >= p->shown_at + 0.1;
    if (!is_due && !is_shown) return true;
    const char *text = mp_text("%s: step %lld of %lld  loss %.6g  %s a step", p->what, (long long)now->step,
                               (long long)now->n_steps, now->loss, seconds_text(now->seconds));
    if (is_due) complain("progress: %s", text);
    if (is_shown) {
        p->shown_at = clock;
        terminal_line(STDERR_FILENO, text);
        p->any = true;
    }
    return true;
}

/* Checks combinations of options that the option table cannot express. */
static int check_train_options(options *o, mp_budget *b, picture_file *picture)
{
    const char *why = NULL;
    if (!option_given(o, OPT_DEVICE) && !o->output.plan) o->model.device = "cpu";
    if (!o->output.plan && !o->search.budget)
        return usage_error("train needs --plan PLAN or --budget BYTES (100%% keeps everything)");
    if (o->output.plan && o->search.budget)
        return usage_error("--plan has a budget of its own, which contradicts --budget; omit --budget");
    if (mp_row_chunks_are_open(&o->model) && !o->output.plan)
        return usage_error("--row-chunks auto: 'memplan plan' chooses the number of chunks; pass its plan with --plan");
    if (o->output.plan && option_given(o, OPT_SOLVER))
        return usage_error("--plan needs no search, so --solver has no effect; omit --solver");
    mp_error err = {0};
    const int rc = picture_file_settle_beside(o, "svg, png, pdf", picture);
    if (rc) return rc;
    if (o->output.out && mp_canvas_check_path(picture->path, &err) != MP_OK) return usage_error("-o: %s", err.message);
    if (o->output.out && o->training.steps == 1) return usage_error("-o: a curve needs two steps or more");
    if (o->training.save_every && !o->training.save) return usage_error("--save-every needs --save FILE");
    if (o->search.budget && !mp_budget_parse(o->search.budget, b, &why))
        return usage_error("--budget: '%s' %s", o->search.budget, why);
    return EXIT_DONE;
}

static mp_status search(const options *o, const mp_budget *b, train_outcome *t, mp_error *err)
{
    mp_status st = MP_OK;
    MP_CLEARED_BY(outcome_free) outcome out = {.workload = &t->workload, .asked = o};
    const mp_answer *a = &out.answer;
    mp_request request = outcome_request(&out);
    MP_CHECK(outcome_start(&out, err));
    MP_CHECK(outcome_find_budget(&out, b, &request, err));
    st = outcome_search(&out, NULL, &request, err);
    if (st == MP_LIMIT) t->no_plan = no_plan_status(false);
    MP_CHECK(st);
    const bool proved = !a->plan && is_refused(&out);
    if (!a->plan) t->no_plan = no_plan_status(proved);
    const char *text = mp_bytes_text(out.budget_bytes), *least = mp_bytes_text(out.floor_bytes);
    MP_ENSURE(a->plan || proved || !a->stopped, err, MP_INFEASIBLE,
              "not known whether anything fits %s: the search was stopped before it found a plan (floor %s)", text, least);
    MP_ENSURE(a->plan, err, MP_INFEASIBLE, "%s %s: the smallest plan found needs %lld bytes, and the floor is %s",
              proved ? "nothing fits" : "not known whether anything fits", text, (long long)mp_plan_need(a->smallest), least);
    t->workload.plan = out.answer.plan;
    out.answer.plan = NULL;
    return st;
}

/* Searches for a plan of the pipeline stage that this process runs. */
static mp_status search_stage(const options *o, const mp_budget *b, train_outcome *t, mp_error *err)
{
    rank_plan_request request = {.asked = o, .budget = b};
    MP_CHECK(pipeline_plan_rank(&request, &t->workload, &t->workload.plan, err));
    if (!t->workload.plan) t->no_plan = no_plan_status(false);
    MP_ENSURE(t->workload.plan, err, MP_INFEASIBLE, "no plan was found for stage %d within %s", t->workload.rank.rank,
              mp_bytes_text(request.budget_bytes));
    return MP_OK;
}

static mp_hyper hyper_of(const options *o)
{
    mp_hyper h = mp_hyper_default((mp_optimizer)mp_optimizer_find(o->model.optimizer));
    if (option_given(o, OPT_LR)) h.learning_rate = o->training.lr;
    if (option_given(o, OPT_MOMENTUM)) h.momentum = o->training.momentum;
    if (option_given(o, OPT_WEIGHT_DECAY)) h.weight_decay = o->training.weight_decay;
    h.nesterov = o->training.nesterov;
    h.schedule = (mp_rate_schedule)mp_rate_schedule_find(o->training.lr_schedule);
    h.warmup_steps = o->training.warmup;
    h.n_steps = o->training.steps ? o->training.steps : STEPS;
    return h;
}

/* Searches for a plan on the first of the ranks with this graph, and sends the plan to the other ranks with this graph. */
static mp_status find_plan(const options *o, const mp_budget *b, train_outcome *t, ranks *r, mp_error *err)
{
    mp_status st = MP_OK;
    if (train_searches(t, r)) st = (*r->stage ? search_stage : search)(o, b, t, err);
    if (st == MP_OK && t->workload.plan && t->workload.plan->arena_bytes < 0)
        st = mp_arena_layout(t->workload.graph, t->workload.plan, err);
    return train_share_plan(o, t, r, st, err);
}

/* Loads the model with the plan, if one is given. Checks that this rank can train it. */
static mp_status load(options *o, train_outcome *t, ranks *r, mp_error *err)
{
    const char *plan = o->output.plan;
    const char *own_plan = plan && *r->stage ? output_part(plan, "rank", r->stage_number) : plan;
    MP_CHECK(load_workload_with_plan(o->operands[0], own_plan, o, &t->workload, err));
    const bool had_joined = r->world;
    MP_CHECK(train_join(o, r, err)); /* the mesh may be stated by the plan file instead of --mesh */
    MP_CHECK(train_check_alone(r, err));
    MP_ENSURE(had_joined || !o->model.own_device || strcmp(o->model.device, "cuda") != 0, err, MP_UNSUPPORTED,
              "on GPUs, --plan needs the mesh, too, so that each rank chooses its device; add --mesh %s",
              mp_mesh_write(&o->model.mesh).text);
    MP_CHECK(mp_workload_check_trains(&t->workload, err));
    MP_ENSURE(!(t->workload.ranks.mesh.zero || *r->stage) || !o->training.save || mp_is_folder(o->training.save) ||
                  access(o->training.save, F_OK),
              err, MP_INVALID, "--save %s: ranks that %s save into a folder, but this is a file", o->training.save,
              *r->stage ? "have stages of a pipeline (pp)" : "share state out (shard)");
    return MP_OK;
}

static mp_status prepare(options *o, const mp_budget *b, train_outcome *t, ranks *r, mp_error *err)
{
    MP_CHECK(train_join(o, r, err));
    MP_CHECK(train_take_stage(o, r, err));
    MP_CHECK(train_end_together(o, r, load(o, t, r, err), true, err));
    if (r->world) MP_CHECK(mp_communicator_join_devices(r->world, t->workload.program->backend, err));
    MP_CHECK(mp_workload_hold(&t->workload, NULL, err));
    MP_CHECK(mp_keep_all_plan(t->workload.graph, NULL, &t->keep_all, err));
    MP_CHECK(train_agree(o, t, r, err));
    if (!o->output.plan) MP_CHECK(find_plan(o, b, t, r, err));
    mp_plan *like = NULL;
    if (o->training.before) MP_CHECK(mp_workload_keep_all_like(&t->workload, &like, err));
    if (like) {
        mp_plan_free(t->keep_all);
        t->keep_all = like;
    }
    if (t->workload.plan->arena_bytes < 0) MP_CHECK(mp_arena_layout(t->workload.graph, t->workload.plan, err));
    return mp_makespan_copying(t->workload.graph, t->workload.plan->steps, t->workload.plan->n_steps, &t->copying, err);
}

/* Opens the inputs of this rank. With --resume no weights are drawn, because the saved state contains all parameters. */
static mp_status open_inputs(const options *o, const mp_text_list *files, const ranks *r, const train_outcome *t,
                             mp_workload_inputs *out, mp_error *err)
{
    const mp_workload_inputs_request request = {.data = *files,
                                                .test = o->training.test,
                                                .seed = (uint64_t)o->search.seed,
                                                .draws_missing = o->training.random_weights || o->training.resume,
                                                .folder = o->training.columns_in,
                                                .world = r->world};
    return mp_workload_open_inputs(&t->workload, &request, out, err);
}

/* Warns if the file contains values for only some of the weights, because it may be the wrong file. Adapters do not count,
 * because no file contains them. Also warns of parameters without a gradient: PyTorch still applies weight decay to them. */
static void warn(const options *o, const train_outcome *t, const mp_hyper *hyper)
{
    const char *first;
    const size_t n = mp_workload_untrained(&t->workload, &first);
    if (t->n_drawn && t->n_drawn < t->n_parameters && !o->training.random_weights && !o->training.resume && !o->model.lora.n)
        complain(
            "%s: warning: the file has no values for %zu of %zu parameters, which are drawn from seed %lld (--random-weights: "
            "without this warning)",
            o->operands[0], t->n_drawn, t->n_parameters, (long long)o->search.seed);
    if (n && hyper->weight_decay > 0)
        complain("%s: warning: no gradient reaches %zu of %zu parameters, the first is '%s': they are neither trained nor "
                 "decayed (PyTorch applies weight decay behind Floor, Sign and similar operators)",
                 o->operands[0], n, t->n_parameters, first);
}

static void step_progress_end(step_progress *shown)
{
    if (shown->any) terminal_clear(STDERR_FILENO);
    if (shown->is_rank) rank_interrupt_late(NULL);
    interrupt_release();
}

/* Runs the keep-all run and the planned run. *reads becomes true if a failure concerns the user's input, and false if it
 * concerns training or saving. */
static mp_status run_both(const options *o, const mp_text_list *files, ranks *r, train_outcome *t, bool *reads, mp_error *err)
{
    *reads = true;
    MP_CLEARED_BY(mp_workload_inputs_free) mp_workload_inputs in = {0};
    MP_CLEARED_BY(step_progress_end)
    step_progress shown = {.what = o->training.before ? "run 1 of 2, keeping all" : "training",
                           .shows = !train_is_silent(r) && o->talk.shows_progress && !o->talk.quiet &&
                                    terminal_rewrites(STDERR_FILENO),
                           .start = mp_clock_now(),
                           .late = r->world           ? o->training.save ? LATE_RANKS NOT_YET : LATE_RANKS NOTHING
                                   : o->training.save ? LATE NOT_YET
                                                      : LATE NOTHING,
                           .grace = 1,
                           .is_rank = r->world};
    if (!train_is_silent(r)) shown.logs = log_times_start(o);
    mp_train_request request = {.program = t->workload.program,
                                .plan = t->keep_all,
                                .execution = {.hyper = hyper_of(o),
                                              .seed = (uint64_t)o->search.seed,
                                              .profile = o->training.profile,
                                              .world = r->world,
                                              .timeout = o->training.timeout,
                                              .by_call = !o->training.captures},
                                .resume = o->training.resume,
                                .n_steps = o->training.steps ? o->training.steps : STEPS,
                                .progress = show_step,
                                .saving = around_saving,
                                .progress_data = &shown};
    interrupt_forget();
    interrupt_catch(true, !shown.shows);
    set_late(&shown, shown.late);
    MP_CHECK(mp_hyper_check(&request.execution.hyper, err));
    MP_CHECK(train_end_together(o, r, open_inputs(o, files, r, t, &in, err), true, err));
    t->n_parameters = in.n_parameters;
    t->n_drawn = in.n_drawn;
    warn(o, t, &request.execution.hyper);
    MP_CHECK(train_agree_on_inputs(o, t, r, &in, err));
    *reads = false;
    request.feed = in.feed;
    request.parameters = in.parameters;
    mp_workload_use_tiers(&t->workload, &request.execution);
    MP_CHECK(train_end_together(o, r, mp_workload_try_tiers(&t->workload, &request.execution, err), false, err));
    if (o->training.before) {
        MP_CHECK(mp_workload_hold_for(&t->workload, t->keep_all, err));
        MP_CHECK(mp_train(&request, &t->before, err));
        t->has_before = true;
        /* the user has stopped the first run. It has fewer steps than the second run would have, so the runs cannot be
         * compared */
        if (t->before.stopped) return MP_OK;
        shown.what = "run 2 of 2, by the plan";
    }
    MP_OWNED mp_step_time *times = NULL;
    if (o->training.trace) {
        MP_ENSURE(!t->workload.program->backend->side_begin, err, MP_UNSUPPORTED,
                  "--trace records the CPU only; use the GPU's profiler for its kernels");
        times = mp_alloc(t->workload.plan->n_steps, sizeof *times);
        MP_ENSURE(times, err, MP_NOMEM, "out of memory");
    }
    request.execution.times = times;
    MP_CHECK(mp_workload_hold_for(&t->workload, t->workload.plan, err));
    request.plan = t->workload.plan;
    request.save = o->training.save;
    shown.saves = o->training.save;
    request.save_every = o->training.save_every;
    request.test = in.test;
    MP_CHECK(mp_train(&request, &t->after, err));
    const double timeout = o->training.timeout > 0 ? o->training.timeout : SILENT_SECONDS;
    return times ? mp_workload_write_trace(&t->workload, r->world, times, o->training.trace, timeout, err) : MP_OK;
}

/* Moves each --data NAME=FILE (a file with the values of an input) to *files. A --data NAME (the input is data and no
 * parameter) is not moved. */
static mp_status split_data(options *o, mp_text_list *files, mp_error *err)
{
    size_t n = 0;
    for (size_t k = 0; k < o->model.data.n; k++) {
        if (!mp_feed_is_source(o->model.data.items[k])) {
            o->model.data.items[n++] = o->model.data.items[k];
            continue;
        }
        MP_ENSURE(mp_grow(&files->items, &files->capacity, files->n + 1, sizeof *files->items), err, MP_NOMEM, "out of memory");
        files->items[files->n++] = o->model.data.items[k];
    }
    o->model.data.n = n;
    if (!n) o->given[OPT_DATA] = false;
    return MP_OK;
}

static mp_status draw_loss(const options *o, const train_outcome *t, picture_file *picture, mp_error *err)
{
    mp_status st = picture_file_open(picture, err);
    if (st == MP_OK)
        st = mp_loss_picture(t->workload.title, t->after.losses, t->after.n_losses, t->after.first_step, picture->path, err);
    return picture_file_close(picture, &o->output, st, err);
}

/* Prints the step after which the training was stopped, and the state that was saved. */
static void tell_interrupted(const training_options *o, const train_outcome *t)
{
    const mp_report *r = &t->after;
    const long long done = (long long)r->first_step + (long long)r->n_losses;
    if (t->before.stopped)
        complain("interrupted after %zu steps of the first run, which keeps all: not compared, and the plan was not run%s",
                 t->before.n_losses, o->save ? "; nothing was saved" : "");
    else if (o->save)
        complain(
            "the training was interrupted after step %lld: '%s' has parameters and state after it, and --resume %s goes on "
            "with step %lld",
            done, o->save, o->save, done + 1);
    else
        complain("the training was interrupted after step %lld; nothing is saved without --save", done);
}

/* Prints a warning if the loss on the test data is not a number. Returns true in this case. */
static bool tell_bad_test(const options *o, const mp_report *r, bool is_silent)
{
    if (!r->has_test || isfinite(r->test.loss)) return false;
    if (is_silent) return true;
    complain("%s: warning: the loss on the test data is not a number%s%s", o->operands[0], r->test.fault[0] ? ": " : "",
             r->test.fault);
    return true;
}

static mp_status tell(const options *o, const train_outcome *t, picture_file *picture, mp_error *err)
{
    if (o->talk.json)
        MP_CHECK(print_train_json(t, err));
    else if (!picture_takes_output(&o->output))
        print_train(t, o);
    return o->output.out ? draw_loss(o, t, picture, err) : MP_OK;
}

/* Trains by the options, prints the answer, and returns the exit status. */
static int train(options *o, ranks *r)
{
    mp_error err = {0};
    MP_CLEARED_BY(train_outcome_free) train_outcome t = {.fast = o->model.fast, .verbose = o->talk.verbose};
    MP_CLEARED_BY(mp_text_list_free) mp_text_list files = {0};
    mp_budget b;
    picture_file picture;
    bool reads;
    int rc = check_train_options(o, &b, &picture);
    if (rc) return rc;
    if (split_data(o, &files, &err) != MP_OK || prepare(o, &b, &t, r, &err) != MP_OK) {
        if (train_is_known(r, &err)) return r->status;
        rc = err.code == MP_INFEASIBLE ? output_failed(&err) : input_failed(&err);
        return t.no_plan ? t.no_plan : rc;
    }
    mp_status st = run_both(o, &files, r, &t, &reads, &err);
    if (st == MP_OK && (t.before.stopped || t.after.stopped)) tell_interrupted(&o->training, &t);
    if (st == MP_OK && t.before.stopped) {
        r->all_failed = true; /* the failure needs no message to other ranks, because all ranks have agreed to stop */
        return r->world ? rank_interrupt_status() : interrupt_status();
    }
    if (st == MP_OK && !train_is_silent(r)) st = tell(o, &t, &picture, &err);
    if (st == MP_OK && tell_bad_test(o, &t.after, train_is_silent(r))) return EXIT_NO;
    if (st == MP_OK) return train_compares(&t) && !train_identical(&t) ? EXIT_NO : EXIT_DONE;
    if (train_is_known(r, &err)) return r->status;
    mp_error_locate(&err, o->operands[0], 0, 0);
    return reads || err.code == MP_PARSE || err.code == MP_INVALID ? input_failed(&err) : output_failed(&err);
}

int cmd_train(options *o)
{
    ranks r = {0};
    const int rc = train(o, &r);
    return train_leave(o, &r, rc);
}
