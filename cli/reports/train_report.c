/* train_report.c - prints the results of the two runs of `memplan train`, and whether they are equal. Prints text or JSON. */
#include "cli/reports/train_report.h"

#include <math.h>
#include <stdio.h>

#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/options.h"
#include "cli/reports/rank_rows.h"
#include "cli/reports/report.h"
#include "formats/json/json.h"
#include "memplan/costs_measure.h"

void train_outcome_free(train_outcome *t)
{
    mp_report_free(&t->before);
    mp_report_free(&t->after);
    mp_plan_free(t->keep_all);
    mp_workload_free(&t->workload);
}

bool train_compares(const train_outcome *t)
{
    return t->has_before && !t->before.stopped && !t->after.stopped;
}

bool train_identical(const train_outcome *t)
{
    return t->has_before && mp_reports_are_same(&t->before, &t->after);
}

/* Returns "unknown" for negative bytes. */
static const char *bytes_if_known(int64_t bytes)
{
    return bytes < 0 ? "unknown" : mp_bytes_text(bytes);
}

/* Prints a table row with one quantity of both runs. */
static void print_row(const train_outcome *t, const char *what, const char *before, const char *after, const char *note)
{
    screen_row("  %-28s%s%14s%s", what, t->has_before ? mp_text("%11s", before) : "", after, note);
}

static void print_bytes(const train_outcome *t, const char *what, int64_t before, int64_t after)
{
    print_row(t, what, bytes_if_known(before), bytes_if_known(after),
              t->verbose ? mp_text("  %18s bytes", count_text(after)) : "");
}

/* Returns the memory of the process during a run, without the blocks that the plan includes: the arena, the static block and
 * other tiers. */
static int64_t beside(const train_outcome *t, const mp_report *r)
{
    const mp_graph *g = t->workload.graph;
    int64_t bytes = r->process_bytes - r->arena_bytes - r->static_bytes;
    for (size_t m = 1; m < g->n_tiers; m++) bytes -= mp_workload_tier_is_file(&t->workload, m) ? 0 : r->tier_bytes[m];
    return r->process_bytes < 0 ? -1 : bytes;
}

/* Returns the number of forward and backward passes in a training step. */
static int64_t passes(const train_outcome *t)
{
    const int n = t->workload.program->options.accumulate;
    return n > 1 ? n : 1;
}

static int64_t loaded(const mp_report *r)
{
    return r->device_bytes - r->idle_device_bytes - r->static_bytes - r->arena_bytes - r->next_batch_bytes;
}

/* Prints the device memory in use besides memplan's arena and static block. One number is measured before these blocks are
 * allocated. The other is measured in the training steps, in which libraries may allocate more. */
static void print_device(const train_outcome *t)
{
    const mp_report *a = &t->before, *b = &t->after;
    print_bytes(t, b->device_is_shared ? "GPU, all processes" : "GPU, this process", a->device_bytes, b->device_bytes);
    print_bytes(t, "  context and libraries", a->idle_device_bytes, b->idle_device_bytes);
    print_bytes(t, "  room of the next batch", a->next_batch_bytes, b->next_batch_bytes);
    print_bytes(t, "  loaded while running", loaded(a), loaded(b));
}

static void print_memory(const train_outcome *t)
{
    const mp_report *a = &t->before, *b = &t->after;
    print_row(t, "", "keep-all", "plan", "");
    print_bytes(t, "planned peak", a->planned_peak_bytes, b->planned_peak_bytes);
    print_bytes(t, "  static", a->static_bytes, b->static_bytes);
    print_bytes(t, "  living at the peak", a->planned_peak_bytes - a->static_bytes, b->planned_peak_bytes - b->static_bytes);
    print_bytes(t, "  arena, as planned", a->arena_bytes, b->arena_bytes);
    print_bytes(t, "  arena, as measured", a->measured_arena_bytes, b->measured_arena_bytes);
    for (size_t m = 1; m < t->workload.graph->n_tiers; m++) {
        const char *tier = t->workload.graph->tiers[m];
        print_bytes(t, mp_text("%s, as planned", tier), mp_plan_tier_need(t->workload.graph, t->keep_all, (int)m),
                    mp_plan_tier_need(t->workload.graph, t->workload.plan, (int)m));
        print_bytes(t, mp_text("%s, taken", tier), a->tier_bytes[m], b->tier_bytes[m]);
    }
    if (b->device_bytes >= 0) print_device(t);
    print_bytes(t, b->device_bytes < 0 ? "process, at its peak" : "process, on the host", a->process_bytes, b->process_bytes);
    if (b->device_bytes < 0) print_bytes(t, "  program, libraries, model", beside(t, a), beside(t, b));
}

enum { SUMS = 256 };

json_t *profile_json(const mp_graph *g, const mp_report *report)
{
    mp_operator_seconds sums[SUMS];
    json_t *list = json_array();
    const size_t n = mp_costs_by_operator(g, report->node_seconds, sums, SUMS);
    for (size_t s = 0; s < n; s++)
        mp_json_append(&list, json_pack("{ss ss sI sf}", "op", sums[s].op, "phase", mp_phase_name(sums[s].phase), "nodes",
                                        (json_int_t)sums[s].n_nodes, "seconds", sums[s].seconds));
    return list;
}

void print_profile(const mp_graph *g, const mp_report *report)
{
    enum { SHOWN = 16 };
    mp_operator_seconds sums[SUMS];
    const size_t n = mp_costs_by_operator(g, report->node_seconds, sums, SUMS);
    double total = 0;
    for (size_t s = 0; s < n; s++) total += sums[s].seconds;
    print("\nWhere the time goes, in the fastest step (%s):\n", seconds_text(report->fastest_seconds));
    for (size_t s = 0; s < n && s < SHOWN; s++)
        print("  %-24s %-9s %5zu node%s  %10s  %5.1f %%\n", sums[s].op, mp_phase_name(sums[s].phase), sums[s].n_nodes,
              sums[s].n_nodes == 1 ? " " : "s", seconds_text(sums[s].seconds), 100 * sums[s].seconds / report->fastest_seconds);
    if (report->fastest_seconds > total)
        print("  %-24s %-9s %5s        %10s  %5.1f %%\n", "between them", "", "", seconds_text(report->fastest_seconds - total),
              100 * (1 - total / report->fastest_seconds));
}

/* Prints the bytes copied to other tiers. They are equal to the planned bytes; otherwise the training would have failed. */
static void print_copied(const train_outcome *t)
{
    const mp_report *r = &t->after;
    if (t->workload.graph->n_tiers < 2) return;
    screen_text(2, "Copied as planned: %s out and %s back in %zu steps.", mp_bytes_text(r->out_bytes),
                mp_bytes_text(r->in_bytes), r->n_losses);
}

/* True if the CPU itself waits for copies, so that the waits can be measured. On a GPU, streams wait. */
static bool waits_are_known(const train_outcome *t)
{
    return !t->workload.program->backend->side_begin;
}

/* Prints the planned seconds of a training step, and the seconds of the step in which compute waits for copies. */
static void print_planned_time(const train_outcome *t)
{
    const double pass = t->workload.graph->tick_seconds * (double)passes(t);
    if (t->workload.graph->n_tiers < 2) return;
    print_row(t, "  as planned", "", seconds_text((double)t->workload.plan->ticks * pass), "");
    print_row(t, "  of it, waiting for copies", "", waits_are_known(t) ? seconds_text(t->after.wait_seconds) : "not known",
              mp_text("  planned %s", seconds_text((double)t->copying.wait_ticks * pass)));
}

enum { COMPARED_STEPS = 6 }; /* the first step is a warm-up, so with fewer steps the times of the two runs are not compared */

static void print_test(const train_outcome *t)
{
    const mp_accuracy *test = &t->after.test;
    print_row(t, "loss on the test data", "", mp_text("%.6g", test->loss),
              mp_text("  %10s samples", count_text(test->n_samples)));
    if (test->accuracy >= 0) print_row(t, "accuracy there", "", mp_text("%.2f %%", 100 * test->accuracy), "");
}

/* Prints the origin of the parameters' initial values: a file, a saved state, or random numbers. */
static void print_origin(const train_outcome *t, const options *o)
{
    if (o->training.resume)
        screen_text(2, "First values: as %s has them after step %lld; this training went on with step %lld.",
                    o->training.resume, (long long)t->after.first_step, (long long)t->after.first_step + 1);
    else if (!t->n_drawn)
        puts("First values: as the model's file has them.");
    else
        screen_text(2, "First values: %zu of %zu parameters drawn from seed %lld; the model's file has none for them.",
                    t->n_drawn, t->n_parameters, (long long)o->search.seed);
}

/* Prints the verdict, which is both the first and the last line of the answer. */
static void print_verdict(const train_outcome *t, const options *o)
{
    const mp_report *r = &t->after;
    const size_t n = r->n_losses;
    const bool same = train_compares(t) && train_identical(t);
    const char *compared = !t->has_before       ? ""
                           : !train_compares(t) ? "; interrupted: not compared"
                           : same               ? "; losses and weights of both runs are the same, bit for bit"
                                                : "; losses and weights of both runs are NOT the same";
    const screen_mood mood = !t->has_before ? SCREEN_GOOD : !train_compares(t) ? SCREEN_OPEN : same ? SCREEN_GOOD : SCREEN_BAD;
    /* states that weights are random, so that users do not take them for their own */
    const char *drawn = o->training.resume || !t->n_drawn ? ""
                        : t->n_drawn == t->n_parameters   ? " from drawn weights"
                                                          : " from some drawn weights";
    screen_verdict(o->talk.color, mood, "%s, %s, %zu step%s%s with a planned peak of %s%s.", t->workload.title,
                   t->workload.graph->target, n, n == 1 ? "" : "s", drawn, mp_bytes_text(r->planned_peak_bytes), compared);
}

void print_train(const train_outcome *t, const options *o)
{
    const mp_report *r = &t->after;
    const size_t n = r->n_losses;
    print_verdict(t, o);
    if (o->talk.quiet) return;
    putchar('\n');
    print_memory(t);
    const char *extra = n >= COMPARED_STEPS ? mp_extra_text(r->step_seconds, t->before.step_seconds) : "too few steps";
    print_row(t, "time of a step (median)", seconds_text(t->before.step_seconds), seconds_text(r->step_seconds),
              t->has_before ? mp_text("  %9s", extra) : "");
    print_planned_time(t);
    print_row(t, "  of it, waiting for inputs", "", seconds_text(r->input_seconds), "");
    if (n) print_row(t, "first loss", "", mp_text("%.6g", r->losses[0]), "");
    if (n) print_row(t, "last loss", "", mp_text("%.6g", r->losses[n - 1]), "");
    if (r->has_test) print_test(t);
    putchar('\n');
    print_origin(t, o);
    const mp_fuse fuse = t->workload.program->options.fuse;
    if (fuse != MP_FUSE_NONE) print("Updates are fused: %s.\n", mp_fuse_name(fuse));
    print_copied(t);
    print_ranks(t);
    print("Memory asked for inside the steps: %lld allocations.\n", (long long)r->n_allocations);
    if (r->device_bytes >= 0)
        print("Steps ran %s.\n", r->n_recordings ? "as captured graphs, after one run call by call" : "call by call");
    report_attention(t->workload.program);
    report_aligned_rows(t->workload.program);
    if (o->model.fast) puts("--fast: algorithms that differ from run to run in their last bits were permitted.");
    if (o->training.profile) print_profile(t->workload.graph, r);
    print_verdict(t, o);
}

/* Returns the results on the test data as JSON; JSON null without test data. "accuracy" is null if the loss is not over
 * classes. */
static json_t *test_json(const mp_report *r)
{
    if (!r->has_test) return json_null();
    return json_pack("{sI so so}", "samples", (json_int_t)r->test.n_samples, "loss",
                     isfinite(r->test.loss) ? json_real(r->test.loss) : json_null(), "accuracy",
                     r->test.accuracy < 0 ? json_null() : json_real(r->test.accuracy));
}

/* Returns the device memory in use as JSON; JSON null if the device uses the host's memory. */
static json_t *device_json(const mp_report *r)
{
    if (r->device_bytes < 0) return json_null();
    return json_pack("{sI sI sI sb}", "bytes", (json_int_t)r->device_bytes, "idle_bytes", (json_int_t)r->idle_device_bytes,
                     "next_batch_bytes", (json_int_t)r->next_batch_bytes, "all_processes", (int)r->device_is_shared);
}

static json_t *report_json(const mp_report *r)
{
    json_t *losses = json_array(), *object;
    for (size_t k = 0; losses && k < r->n_losses; k++) json_array_append_new(losses, json_real(r->losses[k]));
    object =
        json_pack("{sI sI sI sI sI sI so sI sf sf si so ss}", "planned_peak_bytes", (json_int_t)r->planned_peak_bytes,
                  "static_bytes", (json_int_t)r->static_bytes, "arena_bytes", (json_int_t)r->arena_bytes,
                  "measured_arena_bytes", (json_int_t)r->measured_arena_bytes, "process_bytes", (json_int_t)r->process_bytes,
                  "idle_process_bytes", (json_int_t)r->idle_process_bytes, "device", device_json(r), "allocations",
                  (json_int_t)r->n_allocations, "step_seconds", r->step_seconds, "input_seconds", r->input_seconds,
                  "recordings", r->n_recordings, "losses", losses, "weights_hash", r->weights_hash);
    return object;
}

/* Returns the copies to other tiers as JSON. Byte counts are sums over all training steps. */
static json_t *copies_json(const train_outcome *t)
{
    const mp_report *r = &t->after;
    const mp_graph *g = t->workload.graph;
    const double pass = g->tick_seconds * (double)passes(t);
    json_t *tiers = json_array();
    for (size_t m = 1; m < g->n_tiers; m++)
        mp_json_append(&tiers, json_pack("{s:o, s:I, s:I}", "name", mp_json_text(g->tiers[m]), "planned_bytes",
                                         (json_int_t)mp_plan_tier_need(g, t->workload.plan, (int)m), "bytes",
                                         (json_int_t)r->tier_bytes[m]));
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:f, s:f, s:o}", "tiers", tiers, "planned_bytes_out",
                     (json_int_t)mp_workload_copied_bytes(&t->workload, t->copying.out_bytes, r->n_losses), "bytes_out",
                     (json_int_t)r->out_bytes, "planned_bytes_in",
                     (json_int_t)mp_workload_copied_bytes(&t->workload, t->copying.in_bytes, r->n_losses), "bytes_in",
                     (json_int_t)r->in_bytes, "planned_step_seconds", (double)t->workload.plan->ticks * pass,
                     "planned_wait_seconds", (double)t->copying.wait_ticks * pass, "wait_seconds",
                     waits_are_known(t) ? json_real(r->wait_seconds) : json_null());
}

mp_status print_train_json(const train_outcome *t, mp_error *err)
{
    json_t *before = t->has_before ? report_json(&t->before) : json_null(), *after = report_json(&t->after), *all;
    all = json_pack("{ss ss sb sI sI so so so so sb}", "device", t->workload.graph->target, "fuse",
                    mp_fuse_name(t->workload.program->options.fuse), "fast", (int)t->fast, "parameters",
                    (json_int_t)t->n_parameters, "parameters_drawn", (json_int_t)t->n_drawn, "before", before, "after", after,
                    "identical", train_compares(t) ? json_boolean(train_identical(t)) : json_null(), "test",
                    test_json(&t->after), "stopped", (int)t->after.stopped);
    attention_json(t->workload.program, &all);
    aligned_rows_json(t->workload.program, &all);
    if (t->workload.graph->n_tiers > 1) mp_json_set(&all, "offload", copies_json(t));
    if (t->after.n_ranks > 1) mp_json_set(&all, "ranks", train_ranks_json(t));
    if (t->after.node_seconds) mp_json_set(&all, "operators", profile_json(t->workload.graph, &t->after));
    if (!all) return MP_FAIL(err, MP_NOMEM, "the answer");
    return print_json("train", all) == 0 ? MP_OK : MP_FAIL(err, MP_NOMEM, "the answer");
}
