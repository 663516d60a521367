/* rank_rows.c - prints the measurements of each rank of a training as table rows and as JSON, and writes a trace of all
 * ranks. */
#include "cli/reports/rank_rows.h"

#include <stdio.h>

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/options.h"
#include "formats/json/json.h"

static void print_rank(const char *name, const mp_rank_report *before, const mp_rank_report *of)
{
    const char *keeps = before ? mp_text("%11s", mp_bytes_text(before->planned_peak_bytes)) : "";
    screen_row("  %-5s%s%11s%11s%11s%11s%9s%8s", name, keeps, mp_bytes_text(of->planned_peak_bytes),
               mp_bytes_text(of->measured_peak_bytes), of->process_bytes < 0 ? "unknown" : mp_bytes_text(of->process_bytes),
               mp_bytes_text(of->sent_bytes), seconds_text(of->wait_seconds),
               mp_rank_report_hidden(of) < 0 ? "-" : mp_text("%.0f %%", 100 * mp_rank_report_hidden(of)));
}

/* The kinds of data that a rank sends: first one kind per collective, then the exchanges inside operators. */
enum { OF_OPERATORS = MP_N_COLLECTIVES, N_SENT };

static const mp_sent *sent_of(const mp_rank_report *of, int kind)
{
    return kind == OF_OPERATORS ? &of->sent_by_operators : &of->sent[kind];
}

static const char *sent_name(int kind)
{
    return kind == OF_OPERATORS ? "of operators" : mp_collective_name((mp_collective)kind);
}

/* Prints one row per rank, and one row for all ranks together. */
static void print_rows(const train_outcome *t)
{
    const mp_report *r = &t->after;
    const mp_rank_report *before = t->has_before ? t->before.ranks : NULL, all = mp_rank_reports_sum(r->ranks, r->n_ranks),
                         all_before = mp_rank_reports_sum(t->before.ranks, t->before.n_ranks);
    if (!r->ranks) return;
    screen_row("  %-5s%s%11s%11s%11s%11s%9s%8s", "rank", before ? mp_text("%11s", "keep-all") : "", "plan", "measured",
               "process", "sent", "waited", "hidden");
    for (int k = 0; k < r->n_ranks; k++) print_rank(mp_text("%d", k), before ? &before[k] : NULL, &r->ranks[k]);
    print_rank("all", before ? &all_before : NULL, &all);
    for (int kind = 0; kind < N_SENT; kind++) {
        const mp_sent *sent = sent_of(&r->ranks[0], kind);
        if (sent->n)
            screen_row("  rank 0, %-14s %s times, %s sent%s", sent_name(kind), count_text(sent->n), mp_bytes_text(sent->bytes),
                       sent->seconds > 0 ? mp_text(", %s each", seconds_text(sent->seconds / (double)sent->n)) : "");
    }
    if (t->verbose)
        puts("  keep-all, plan, measured: static memory and arena, as planned and as written; hidden: the share of the "
             "communication time spent computing");
}

/* Prints the pipeline schedule of a training step. */
static void print_stages(const train_outcome *t)
{
    const mp_report *r = &t->after;
    const mp_pipeline_shape *shape = &t->workload.rank.shape;
    int64_t most = 0;
    for (int k = 0; r->ranks && k < r->n_ranks; k++)
        if (r->ranks[k].set_aside_bytes > most) most = r->ranks[k].set_aside_bytes;
    screen_text(2, "%s micro-batch%s, %s; a rank copied up to %s per step for waiting micro-batches.",
                count_text(shape->n_micro_batches), shape->n_micro_batches == 1 ? "" : "es", mp_schedule_name(shape->schedule),
                mp_bytes_text(r->n_losses ? most / (int64_t)r->n_losses : 0));
}

/* True if an operator of the network computes statistics over the batch (batch normalization). */
static bool has_statistics(const train_outcome *t)
{
    const mp_model *model = t->workload.model;
    bool any = false;
    for (size_t k = 0; model && k < model->n_operators && !any; k++)
        any = !model->operators[k].removed && model->operators[k].op && model->operators[k].op->traits & MP_TRAIT_STATISTICS;
    return any;
}

void print_ranks(const train_outcome *t)
{
    const mp_report *r = &t->after;
    if (r->n_ranks < 2) return;
    screen_text(2,
                "%d ranks, %s, joined by %s; sums are %s. This rank sent %s in %zu steps, planned %s, and waited %s a step for "
                "others. Parameters are the same on all ranks%s.%s",
                r->n_ranks, mp_mesh_write(&t->workload.ranks.mesh).text, r->network,
                t->workload.program->fast_sums ? "in the network's fastest order" : "in the order of the ranks",
                mp_bytes_text(r->sent_bytes), r->n_losses, mp_bytes_text(r->planned_sent_bytes), seconds_text(r->wait_seconds),
                t->workload.rank.shape.n_ranks ? " of a stage" : "",
                !has_statistics(t) ? ""
                : t->workload.program->shares_statistics
                    ? " Batch normalization uses the samples of all ranks."
                    : " Batch normalization uses the samples of each rank (--sync-batchnorm: of all ranks).");
    print_rows(t);
    if (t->workload.rank.shape.n_ranks) print_stages(t);
}

static json_t *sent_json(const mp_rank_report *of)
{
    json_t *list = json_array();
    for (int kind = 0; kind < N_SENT; kind++) {
        const mp_sent *sent = sent_of(of, kind);
        if (sent->n)
            mp_json_append(&list, json_pack("{s:s, s:I, s:I, s:f}", "collective", sent_name(kind), "runs", (json_int_t)sent->n,
                                            "sent_bytes", (json_int_t)sent->bytes, "seconds", sent->seconds));
    }
    return list;
}

static json_t *peaks_json(const mp_rank_report *of)
{
    if (!of) return json_null();
    return json_pack("{s:I, s:I, s:I}", "planned_peak_bytes", (json_int_t)of->planned_peak_bytes, "measured_peak_bytes",
                     (json_int_t)of->measured_peak_bytes, "process_bytes", (json_int_t)of->process_bytes);
}

/* Returns the measurements of one rank, or of all ranks together, as a JSON object. */
static json_t *measured_json(const mp_rank_report *before, const mp_rank_report *of)
{
    return json_pack("{s:o, s:o, s:I, s:I, s:f, s:f, s:o}", "before", peaks_json(before), "after", peaks_json(of),
                     "planned_sent_bytes", (json_int_t)of->planned_sent_bytes, "sent_bytes", (json_int_t)of->sent_bytes,
                     "network_seconds", of->network_seconds, "wait_seconds", of->wait_seconds, "hidden",
                     mp_rank_report_hidden(of) < 0 ? json_null() : json_real(mp_rank_report_hidden(of)));
}

static void add_rows(const train_outcome *t, json_t **to)
{
    const mp_report *r = &t->after;
    const mp_rank_report *before = t->has_before ? t->before.ranks : NULL, all = mp_rank_reports_sum(r->ranks, r->n_ranks),
                         all_before = mp_rank_reports_sum(t->before.ranks, t->before.n_ranks);
    json_t *rows = json_array();
    for (int k = 0; k < r->n_ranks; k++) {
        json_t *row = measured_json(before ? &before[k] : NULL, &r->ranks[k]);
        mp_json_set(&row, "rank", json_integer(k));
        mp_json_set(&row, "machine", mp_json_text(r->ranks[k].machine));
        mp_json_set(&row, "process", json_integer(r->ranks[k].process));
        mp_json_set(&row, "weights_hash", mp_json_text(r->ranks[k].weights_hash));
        if (t->workload.rank.shape.n_ranks) mp_json_set(&row, "set_aside_bytes", json_integer(r->ranks[k].set_aside_bytes));
        mp_json_set(&row, "step_seconds", json_real(r->ranks[k].step_seconds));
        mp_json_set(&row, "collectives", sent_json(&r->ranks[k]));
        mp_json_append(&rows, row);
    }
    mp_json_set(to, "each", rows);
    mp_json_set(to, "all", measured_json(before ? &all_before : NULL, &all));
}

json_t *train_ranks_json(const train_outcome *t)
{
    const mp_report *r = &t->after;
    const char *statistics = !has_statistics(t) ? "none" : t->workload.program->shares_statistics ? "all ranks" : "each rank";
    json_t *object =
        json_pack("{s:s, s:i, s:s, s:s, s:s, s:I, s:I, s:f}", "mesh", mp_mesh_write(&t->workload.ranks.mesh).text, "ranks",
                  r->n_ranks, "network", r->network, "reduce", t->workload.program->fast_sums ? "fast" : "ordered",
                  "batch_statistics", statistics, "planned_sent_bytes", (json_int_t)r->planned_sent_bytes, "sent_bytes",
                  (json_int_t)r->sent_bytes, "wait_seconds", r->wait_seconds);
    if (r->ranks) add_rows(t, &object);
    return object;
}
