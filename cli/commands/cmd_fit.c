/* cmd_fit.c - the command fit: finds the largest batch whose training step fits in a given memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/budget_bytes.h"
#include "cli/reports/needs_report.h"
#include "cli/reports/plan.h"
#include "cli/reports/progress.h"
#include "cli/reports/report.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_source.h"
#include "formats/json/json.h"
#include "memplan/budget.h"
#include "memplan/studies/fit.h"
#include "memplan/workloads/row_chunks.h"

static const char *const titles[MP_N_FIT_MEANS] = {"keep all", "recompute", "any"};

/* ---- options ---- */

/* True for a number without a unit, such as "20". As a value of --overhead it means per cent, because a number of bytes makes
 * no sense there. */
static bool is_plain_number(const char *text)
{
    return strspn(text, "0123456789.") == strlen(text);
}

/* Reads the options. Writes a text to `within` that names the memory limit: "2.00 GiB", or "the 39.50 GiB of a100".
 * *needs_decide becomes true if the limit applies to the memory of the process, false if it applies to the plan alone. */
static int read_fit_options(options *o, int64_t *memory_bytes, bool *needs_decide, char *within, double *overhead)
{
    const char *why;
    mp_budget share;
    options_take_card(o);
    const int rc = memory_read(o, memory_bytes);
    if (rc) return rc;
    if (!mp_budget_parse(o->search.overhead, &share, &why) ||
        (share.kind != MP_BUDGET_OF_PEAK && !is_plain_number(o->search.overhead)))
        return usage_error("--overhead: '%s' is not a percentage like 20%%", o->search.overhead);
    const int64_t visible_bytes = mp_visible_bytes_of_options(&o->model);
    *needs_decide = *memory_bytes < 0 && visible_bytes;
    if (*needs_decide) {
        snprintf(within, MP_TEXT_MAX, "the %s of %s", mp_bytes_text(visible_bytes), o->model.device);
        *memory_bytes = visible_bytes;
    } else if (*memory_bytes < 0) {
        mp_error err = {0};
        mp_device_capacity room;
        if (mp_capacity_of_options(&o->model, &room, &err) != MP_OK) return input_failed(&err);
        snprintf(within, MP_TEXT_MAX, "%s", mp_capacity_text(&room));
        *memory_bytes = mp_capacity_bytes(&room);
    } else {
        snprintf(within, MP_TEXT_MAX, "%s", mp_bytes_text(*memory_bytes));
    }
    *overhead = is_plain_number(o->search.overhead) ? strtod(o->search.overhead, NULL) / 100 : share.percent / 100;
    return EXIT_DONE;
}

/* Refuses a model whose batch size is fixed in the file. Other batch sizes can be built only for a model that requires
 * --batch. */
static mp_status refuse_fixed(const options *o, mp_error *err)
{
    const char *path = o->operands[0];
    MP_ABOUT(err, path);
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    mp_error ours = {0};
    MP_CHECK(refuse_model_options(path, o, err));
    MP_ENSURE(!mp_workload_is_graph(path), err, MP_INVALID,
              "fit needs a model, but the input is a training graph, built for one batch");
    if (mp_workload_architecture(path) || mp_workload_load(path, &o->model, &s, &ours) != MP_OK) return MP_OK;
    const int64_t batch = mp_workload_batch(&s);
    MP_ENSURE(batch <= 0, err, MP_INVALID,
              "the model fixes the batch at %lld, but fit needs an open batch; export it with a dynamic batch dimension",
              (long long)batch);
    return MP_FAIL(err, MP_INVALID, "the model has no batch dimension, so fit cannot choose a batch");
}

/* ---- building and searching ---- */

/* The numbers of chunks of rows that were chosen for a batch. */
typedef struct chosen_chunks {
    int64_t batch;
    char setting[MP_ROW_CHUNKS_TEXT];
} chosen_chunks;

typedef struct builder {
    const options *asked;
    progress *shown;
    char name[128];      /* name of the model, taken from the last graph that was built */
    const char *program; /* the name of the program that can run the last graph, as returned by mp_workload_program */
    char accuracy[MP_ACCURACY_TEXT]; /* mp_workload_accuracy of the batch that the answer recommends */
    mp_workload_terms terms;         /* the process that trains the last graph */
    mp_other_rules other;  /* peak of keep-all under the other rules (PyTorch's or memplan's), for the batch size kept_batch */
    chosen_chunks *chunks; /* with --row-chunks auto: the batches with a choice */
    size_t n_chunks, capacity;
} builder;

static void builder_clear(builder *b)
{
    mp_free(b->chunks);
}

/* Loads the model for a batch. Prints the notes of the model only if loading fails, because notes may apply to this batch
 * alone. */
static mp_status load_batch(builder *b, options *o, int64_t batch, mp_workload *out, mp_error *err)
{
    o->model.batch = batch;
    const mp_status st = mp_workload_load(o->operands[0], &o->model, out, err);
    if (st != MP_OK) print_notes(out, 0);
    MP_CHECK(st);
    snprintf(b->name, sizeof b->name, "%s", out->graph->name && *out->graph->name ? out->graph->name : out->path);
    b->program = workload_program(out);
    mp_workload_terms_of(out, &o->model, &b->terms);
    return MP_OK;
}

static mp_status graph_at(void *data, int64_t batch, mp_graph **out, mp_error *err)
{
    builder *b = data;
    options o = *b->asked;
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    MP_CHECK(load_batch(b, &o, batch, &s, err));
    *out = mp_workload_take_graph(&s);
    return MP_OK;
}

/* For --row-chunks auto: chooses the numbers of chunks of a batch, and builds the graph of the batch with these numbers; or
 * computes only the floor of all numbers. */
static mp_status best_at(void *data, int64_t batch, int64_t budget_bytes, bool only_floor, mp_fit_choice *out, mp_error *err)
{
    builder *b = data;
    options o = *b->asked;
    MP_CLEARED_BY(mp_workload_free) mp_workload whole = {0}, chosen = {0};
    mp_request request = search_request(b->asked);
    MP_CLEARED_BY(mp_row_chunks_choice_free) mp_row_chunks_choice choice = {0};
    request.budget_bytes = budget_bytes;
    if (!request.solver || !strcmp(request.solver, "auto")) request.solver = "lagrange"; /* one searcher compares quickly */
    request.progress = progress_show;
    request.progress_data = b->shown;
    MP_CHECK(load_batch(b, &o, batch, &whole, err));
    if (only_floor) return mp_row_chunks_floor(&whole, &o.model, &request, &out->floor_bytes, err);
    MP_CHECK(mp_row_chunks_choose(&whole, &o.model, &request, &choice, err));
    out->floor_bytes = choice.floor_bytes;
    if (choice.n > 1) {
        o.model.row_chunks = choice.setting;
        MP_CHECK(load_batch(b, &o, batch, &chosen, err));
        MP_ENSURE(mp_grow(&b->chunks, &b->capacity, b->n_chunks + 1, sizeof *b->chunks), err, MP_NOMEM,
                  "out of memory for the chunks of %zu batches", b->n_chunks);
        b->chunks[b->n_chunks].batch = batch;
        snprintf(b->chunks[b->n_chunks++].setting, MP_ROW_CHUNKS_TEXT, "%s", choice.setting);
        out->graph = mp_workload_take_graph(&chosen);
    }
    out->trial = choice.trial;
    choice.trial = (mp_answer){0};
    return MP_OK;
}

/* Returns the numbers of chunks of rows of an answer's plan, such as "head=8"; NULL: its regions are whole. */
static const char *chunks_of(const builder *b, const mp_fit_answer *a)
{
    for (size_t k = 0; a->is_of_best_at && k < b->n_chunks; k++)
        if (b->chunks[k].batch == a->batch) return b->chunks[k].setting;
    return NULL;
}

/* Returns the answer that the report recommends: the largest batch within the allowed extra time. If there is none, returns the
 * largest batch with any extra time. */
static const mp_fit_answer *recommended(const mp_fit *found)
{
    const mp_fit_answer *a = &found->answers[MP_FIT_RECOMPUTE];
    return a->batch > 0 ? a : &found->answers[MP_FIT_ANY];
}

/* Prints the notes of the recommended batch, and stores its accuracy in `b`. If no batch fits, uses batch 1. */
static mp_status tell_notes(builder *b, const mp_fit *found, mp_error *err)
{
    options o = *b->asked;
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    const mp_fit_answer *a = recommended(found);
    const char *chunks = chunks_of(b, a);
    o.model.batch = a->batch > 0 ? a->batch : 1;
    if (chunks) o.model.row_chunks = chunks;
    MP_CHECK(load_workload(o.operands[0], &o, &s, err));
    snprintf(b->accuracy, sizeof b->accuracy, "%s", mp_workload_accuracy(&s));
    return MP_OK;
}

/* Returns the largest batch that fits if everything is kept. If no batch fits, returns 1. */
static int64_t kept_batch(const mp_fit *found)
{
    const int64_t batch = found->answers[MP_FIT_KEEP_ALL].batch;
    return batch > 0 ? batch : 1;
}

static bool show(int64_t batch, const mp_progress *search, void *data)
{
    return search ? progress_show(search, data) : progress_next(data, mp_text("batch %lld", (long long)batch));
}

/* ---- the answer ---- */

static const char *const end_names[] = {
    [MP_FIT_UNKNOWN] = "unknown",     [MP_FIT_PROVED] = "proved",     [MP_FIT_OVER] = "over",
    [MP_FIT_NOT_FOUND] = "not-found", [MP_FIT_TOO_SLOW] = "too-slow", [MP_FIT_MOST_MET] = "limit"};

static json_t *answer_json(const builder *b, const mp_fit_answer *a)
{
    const bool any = a->batch > 0;
    const char *chunks = chunks_of(b, a);
    json_t *solver = any ? json_string(a->solver) : json_null();
    json_t *needs = any && a->needs.likely_bytes ? needs_json(&a->needs) : json_null();
    json_t *json =
        json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:I, s:s, s:o, s:o, s:o}}", "batch", (json_int_t)a->batch,
                  "peak_bytes", mp_json_integer_if(any, a->peak_bytes), "static_bytes",
                  mp_json_integer_if(any, a->static_bytes), "overhead", mp_json_real_if(any, a->overhead), "seconds",
                  mp_json_real_if(any, a->seconds), "solver", solver, "needs", needs, "next", "batch", (json_int_t)a->batch + 1,
                  "reason", end_names[a->end], "floor_bytes", mp_json_integer_if(a->next_floor_bytes >= 0, a->next_floor_bytes),
                  "smallest_feasible_bytes", mp_json_integer_if(a->next_smallest_bytes >= 0, a->next_smallest_bytes),
                  "overhead", mp_json_real_if(a->next_overhead >= 0, a->next_overhead));
    if (chunks) mp_json_set(&json, "row_chunks", chunk_setting_json(chunks));
    return json;
}

static json_t *fit_json(const mp_fit_request *r, const mp_fit *found, const builder *b, const options *o)
{
    const mp_fit_answer *a = found->answers;
    json_t *json =
        json_pack("{s:o, s:s, s:o, s:I, s:I, s:f, s:I, s:I, s:I, s:b, s:o, s:o, s:o}", "model", mp_json_text(b->name), "rules",
                  o->model.rules, "other_rules", other_rules_json(&b->other), "memory_bytes", (json_int_t)r->memory_bytes,
                  "plan_bytes", (json_int_t)found->plan_bytes, "overhead", r->overhead, "batch_keep_all",
                  (json_int_t)a[MP_FIT_KEEP_ALL].batch, "batch_recompute", (json_int_t)a[MP_FIT_RECOMPUTE].batch, "batch_any",
                  (json_int_t)a[MP_FIT_ANY].batch, "complete", !found->stopped, "keep_all", answer_json(b, &a[MP_FIT_KEEP_ALL]),
                  "recompute", answer_json(b, &a[MP_FIT_RECOMPUTE]), "any", answer_json(b, &a[MP_FIT_ANY]));
    accuracy_json(b->accuracy, &json);
    return json;
}

/* Prints the memory that the process requires for the largest batch whose plan stays within the allowed extra time. */
static void print_needs(const mp_fit *found)
{
    const mp_fit_answer *a = &found->answers[MP_FIT_RECOMPUTE];
    if (a->batch <= 0 || !a->needs.likely_bytes) return;
    report_needs(&a->needs, mp_text("Batch %lld needs", (long long)a->batch));
}

/* Prints the numbers of chunks of rows of the answers, each batch once. */
static void print_chunks(const builder *b, const mp_fit *found)
{
    for (int k = MP_FIT_RECOMPUTE; k < MP_N_FIT_MEANS; k++) {
        const mp_fit_answer *a = &found->answers[k];
        const char *chunks = chunks_of(b, a);
        if (!chunks || (k == MP_FIT_ANY && a->batch == found->answers[MP_FIT_RECOMPUTE].batch)) continue;
        screen_row("  chunks of rows of batch %lld: --row-chunks %s", (long long)a->batch, chunks);
    }
}

static void print_answer(mp_fit_means means, const mp_fit_answer *a, bool verbose)
{
    if (!a->batch) {
        screen_row("  %-10s %7s", titles[means], "none");
        return;
    }
    const char *exact = verbose ? mp_text("  %18s bytes", count_text(a->peak_bytes)) : "";
    screen_row("  %-10s %7lld  %11s%s  %9s  %9s  %11s  %s", titles[means], (long long)a->batch, mp_bytes_text(a->peak_bytes),
               exact, mp_extra_text(1 + a->overhead, 1), seconds_text(a->seconds), seconds_text(a->seconds / (double)a->batch),
               a->solver);
}

/* Returns a sentence that compares two extra times, in per cent. Both are printed with as many digits as needed to differ. */
static const char *too_slow_text(double taken, double allowed)
{
    enum { MOST_DIGITS = 6 };
    int digits = 1;
    while (digits < MOST_DIGITS && !strcmp(mp_text("%.*f", digits, taken), mp_text("%.*f", digits, allowed))) digits++;
    return mp_text("fits, but takes %+.*f %% where %+.*f %% is allowed", digits, taken, digits, allowed);
}

/* Prints why the next larger batch does not fit, or takes too long. */
static void print_next(mp_fit_means means, const mp_fit *found, const mp_fit_request *r)
{
    const mp_fit_answer *a = &found->answers[means];
    const int64_t limit = means == MP_FIT_KEEP_ALL ? r->memory_bytes : found->plan_bytes;
    const int64_t over_bytes = a->next_smallest_bytes - limit;
    const char *why = "was not tried any more";
    switch (a->end) {
    case MP_FIT_UNKNOWN:
        break;
    case MP_FIT_MOST_MET:
        why = "is more than fit tries";
        break;
    case MP_FIT_TOO_SLOW:
        why = too_slow_text(100 * a->next_overhead, 100 * r->overhead);
        break;
    case MP_FIT_PROVED:
        why = mp_text("does not fit: no schedule needs less than its floor of %s", mp_bytes_text(a->next_floor_bytes));
        break;
    case MP_FIT_OVER:
        why =
            mp_text("does not fit: it takes %s, %s too much", mp_bytes_text(a->next_smallest_bytes), mp_bytes_text(over_bytes));
        break;
    case MP_FIT_NOT_FOUND:
        why = over_bytes > 0 ? mp_text("was not found to fit: the smallest plan takes %s, %s too much (floor %s)",
                                       mp_bytes_text(a->next_smallest_bytes), mp_bytes_text(over_bytes),
                                       mp_bytes_text(a->next_floor_bytes))
                             : "was not found to fit: PyTorch's allocator reserves too much for the plan";
    }
    screen_text(22, "  %-10s %7lld  %s", titles[means], (long long)a->batch + 1, why);
}

/* Prints "resnet18 in 2.00 GiB: batch 62 keeping all, 91 at +20.0 % time, 104 at any time." */
static void print_verdict(const talk_options *o, const mp_fit_request *r, const mp_fit *found, const builder *b,
                          const char *bytes)
{
    const char *name = mp_text("%s%s,", b->name, b->program);
    const mp_fit_answer *a = found->answers;
    const char *counted = o->verbose ? mp_text(" (%s bytes)", count_text(r->memory_bytes)) : "";
    if (a[MP_FIT_ANY].batch > 0)
        screen_verdict(o->color, SCREEN_GOOD, "%s in %s%s: batch %lld keeping all, %lld at %s time, %lld at any%s.", name,
                       bytes, counted, (long long)a[MP_FIT_KEEP_ALL].batch, (long long)a[MP_FIT_RECOMPUTE].batch,
                       mp_extra_text(1 + r->overhead, 1), (long long)a[MP_FIT_ANY].batch, found->stopped ? ", so far" : "");
    else if (found->stopped)
        screen_verdict(o->color, SCREEN_OPEN, "%s in %s%s: not known; the search was stopped.", name, bytes, counted);
    else if (a[MP_FIT_ANY].end == MP_FIT_NOT_FOUND)
        screen_verdict(o->color, SCREEN_OPEN, "%s in %s%s: not known; no plan was found for a batch of one.", name, bytes,
                       counted);
    else
        screen_verdict(o->color, SCREEN_BAD, "%s in %s%s: not even a batch of one fits.", name, bytes, counted);
}

/* Prints the peak of keep-all for the same batch under the other rules: in PyTorch for memplan's executor, and vice versa. */
static void print_other(const mp_other_rules *other, int64_t batch)
{
    if (other->is_known)
        screen_text(2, "  %s, keeping everything takes %s at batch %lld (%s).", other_rules_name(other),
                    mp_bytes_text(other->peak_bytes), (long long)batch, other_rules_option(other));
}

static void print_fit(const options *o, const mp_fit_request *r, const mp_fit *found, const builder *b, const char *within)
{
    print_verdict(&o->talk, r, found, b, within);
    if (o->talk.quiet) return;
    putchar('\n');
    screen_row("  %-10s %7s  %11s%s  %9s  %9s  %11s  %s", "", "batch", "peak",
               o->talk.verbose ? "                          " : "", "extra", "time", "per sample", "found by");
    for (int k = 0; k < MP_N_FIT_MEANS; k++) print_answer((mp_fit_means)k, &found->answers[k], o->talk.verbose);
    if (found->answers[MP_FIT_ANY].batch) puts("  (each of these plans was replayed and holds)");
    print_chunks(b, found);
    if (r->best_at) screen_text(2, "  extra time is relative to keeping everything with whole regions.");
    print_other(&b->other, kept_batch(found));
    print_needs(found);
    report_accuracy(b->accuracy);
    puts("\nThe next batch:");
    for (int k = 0; k < MP_N_FIT_MEANS; k++) print_next((mp_fit_means)k, found, r);
    putchar('\n');
    print_verdict(&o->talk, r, found, b, within);
}

int cmd_fit(options *o)
{
    mp_error err = {0};
    mp_fit found = {0};
    progress shown;
    MP_CLEARED_BY(builder_clear) builder b = {.asked = o, .shown = &shown};
    mp_fit_request request = {.graph_at = graph_at,
                              .best_at = mp_row_chunks_are_open(&o->model) ? best_at : NULL,
                              .graph_data = &b,
                              .solver = o->search.solver,
                              .seed = (uint64_t)o->search.seed,
                              .moves = o->search.moves,
                              .effort = (mp_effort)mp_effort_find(o->search.effort),
                              .keep_order = o->search.keep_order,
                              .progress = show,
                              .progress_data = &shown};
    char within[MP_TEXT_MAX];
    bool needs_decide = false;
    int rc = read_fit_options(o, &request.memory_bytes, &needs_decide, within, &request.overhead);
    if (rc) return rc;
    if (needs_decide) request.terms = &b.terms.process;
    if (refuse_fixed(o, &err) != MP_OK) return input_failed(&err);
    progress_start(&shown, o, 0, request.memory_bytes);
    if (request.effort == MP_EFFORT_THOROUGH && !shown.shows && !o->talk.quiet && o->talk.shows_progress)
        complain("every batch that is tried has a thorough search of its own: this takes up to minutes (Ctrl-C keeps what was "
                 "found)");
    const mp_status st = mp_fit_batch(&request, &found, &err);
    progress_end(&shown);
    if (st != MP_OK) return input_failed(&err);
    if (found.stopped) complain("the search was cut short; this is what it had found");
    if (tell_notes(&b, &found, &err) != MP_OK) return input_failed(&err);
    if ((!o->talk.quiet || o->talk.json) &&
        mp_other_rules_at(&o->model, o->operands[0], kept_batch(&found), &b.other, &err) != MP_OK)
        return input_failed(&err);
    if (o->talk.json)
        rc = print_json("fit", fit_json(&request, &found, &b, o));
    else
        print_fit(o, &request, &found, &b, within);
    const mp_fit_answer *any = &found.answers[MP_FIT_ANY];
    return rc || any->batch > 0 ? rc : no_plan_status(any->end != MP_FIT_NOT_FOUND && any->end != MP_FIT_UNKNOWN);
}
