/* pipeline_answers.c - answers about all ranks of a pipeline with everything kept. They contain the memory of each rank, the
 * time of a training step, and a picture of the micro-batches that each rank executes over time. */
#include <stdio.h>

#include "cli/messages/messages.h"
#include "cli/messages/screen.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/options/picture_file.h"
#include "cli/reports/needs_report.h"
#include "cli/reports/pipeline.h"
#include "cli/reports/report.h"
#include "formats/base/text.h"
#include "formats/canvas/canvas.h"
#include "memplan/pictures/pipeline_picture.h"
#include "memplan/workloads/workload_needs.h"

/* Returns the blocks of the network that belong to the stages of a rank, as ranges: "0-5, 12-17". */
static const char *blocks_text(const mp_pipeline_report *p, int rank)
{
    const char *text = "";
    for (int q = rank; q < p->shape.n_ranks * p->shape.n_chunks; q += p->shape.n_ranks) {
        const int first = p->begins[q], last = p->begins[q + 1] - 1;
        text = mp_text("%s%s%d", text, q == rank ? "" : ", ", first);
        if (last > first) text = mp_text("%s-%d", text, last);
    }
    return text;
}

static void print_verdict(const pipeline *p)
{
    const int64_t peak = mp_pipeline_report_peak(&p->report);
    const bool decides = p->room.visible_bytes > 0; /* true: compares the process's memory; false: the peak */
    const bool fits = decides ? p->needs.likely_bytes <= p->needs.card_bytes : peak <= mp_capacity_bytes(&p->room);
    const char *bytes = mp_bytes_text(peak);
    if (*p->room.name)
        screen_verdict(p->asked->talk.color, fits ? SCREEN_GOOD : SCREEN_BAD,
                       "%s, %s%s: keeping everything takes %s on the fullest rank%s. %s %s.", p->report.title, p->report.mesh,
                       p->program, bytes, other_rules_text(&p->other, peak), fits ? "Fits" : "Does not fit",
                       decides ? needs_verdict(&p->needs, p->room.name) : mp_capacity_text(&p->room));
    else
        screen_verdict(p->asked->talk.color, SCREEN_PLAIN, "%s, %s: keeping everything takes %s on the fullest rank.",
                       p->report.title, p->report.mesh, bytes);
}

static void print_ranks(const mp_pipeline_report *p)
{
    screen_row("  %-4s %-12s %6s %11s %11s %11s %11s %11s", "rank", "blocks", "flight", "parameters", "gradients", "optimizer",
               "held", "peak");
    for (int r = 0; r < p->shape.n_ranks; r++) {
        const mp_pipeline_rank *row = &p->ranks[r];
        screen_row("  %-4d %-12s %6lld %11s %11s %11s %11s %11s", r, blocks_text(p, r), (long long)row->in_flight,
                   mp_bytes_text(row->parameter_bytes), mp_bytes_text(row->gradient_bytes), mp_bytes_text(row->state_bytes),
                   mp_bytes_text(row->held_bytes), mp_bytes_text(row->peak_bytes));
    }
    screen_text(2, "flight: micro-batches between forward and backward; held: bytes kept by all of them but one.");
}

/* If --device names a card, records the process memory of the rank for the keep-all schedule. */
static mp_status take_needs_of_keep_all(pipeline *p, const mp_workload *s, mp_error *err)
{
    const mp_step *steps;
    const mp_timeline *timeline;
    mp_needs needs;
    if (!*p->room.name) return MP_OK;
    MP_CHECK(mp_problem_keep_all(s->problem, &steps, &timeline, err));
    MP_CHECK(mp_workload_needs(s, &p->asked->model, steps, timeline, -1, &needs, err));
    mp_capacity_take_needs(s, &p->asked->model, &needs, timeline->peak_bytes, &p->room);
    pipeline_take_needs(p, &needs);
    return MP_OK;
}

mp_status pipeline_take_ranks(pipeline *p, mp_error *err)
{
    for (int r = 0; r < p->report.shape.n_ranks; r++) {
        MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
        rank_options space;
        const options one = pipeline_rank_options(p, r, &space);
        MP_CHECK(load_workload(one.operands[0], &one, &s, err));
        MP_CHECK(pipeline_take(p, &s, err));
        MP_CHECK(take_needs_of_keep_all(p, &s, err));
    }
    return MP_OK;
}

mp_status pipeline_estimate_ranks(const options *o, pipeline *p, mp_error *err)
{
    MP_CHECK(pipeline_start(o, p, err));
    MP_CHECK(pipeline_take_ranks(p, err));
    return mp_pipeline_report_play(&p->report, err);
}

/* Computes the peak of the fullest rank under the other rules: PyTorch's rules if the answer uses memplan's rules, memplan's if
 * it uses PyTorch's. If the other rules refuse the model, the peak is unknown. */
static mp_status find_other(const options *o, pipeline *p, mp_error *err)
{
    mp_error ours = {0};
    MP_CLEARED_BY(pipeline_free) pipeline again = {0};
    options asked = *o;
    asked.model = mp_other_rules_options(&o->model);
    asked.talk.hides_notes = true;
    p->other = (mp_other_rules){.rules = (mp_rules)mp_rules_find(asked.model.rules)};
    if (pipeline_estimate_ranks(&asked, &again, &ours) == MP_OK) {
        p->other.is_known = true;
        p->other.peak_bytes = mp_pipeline_report_peak(&again.report);
    }
    MP_ENSURE(ours.code != MP_NOMEM, err, MP_NOMEM, "%s", ours.message);
    return MP_OK;
}

int pipeline_estimate(const options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(pipeline_free) pipeline p = {0};
    if (o->output.csv) return usage_error("--csv writes one graph; choose it with --rank");
    if (pipeline_estimate_ranks(o, &p, &err) != MP_OK) return input_failed(&err);
    if (o->talk.json) return print_json("pipeline", pipeline_json(&p));
    if (*p.room.name && find_other(o, &p, &err) != MP_OK) return input_failed(&err);
    print_verdict(&p);
    if (o->talk.quiet) return EXIT_DONE;
    putchar('\n');
    print_ranks(&p.report);
    report_needs(&p.needs, "The fullest rank needs");
    pipeline_print_step(&p.report);
    putchar('\n');
    print_verdict(&p);
    return EXIT_DONE;
}

int pipeline_timeline(const options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(pipeline_free) pipeline p = {0};
    picture_file file;
    const int rc = picture_file_settle(o, "svg, png, pdf", &file);
    if (rc != EXIT_DONE) return rc;
    if (mp_canvas_check_path(file.path, &err) != MP_OK)
        return usage_error("-o: %s; for a trace, choose one graph with --rank", err.message);
    if (pipeline_estimate_ranks(o, &p, &err) != MP_OK) return input_failed(&err);
    const char **notes = mp_pool_alloc(p.report.pool, (size_t)p.report.shape.n_ranks, sizeof *notes);
    mp_status st = notes ? picture_file_open(&file, &err) : MP_NO_MEMORY(&err);
    for (int r = 0; r < p.report.shape.n_ranks && st == MP_OK; r++) {
        notes[r] = mp_pool_format(p.report.pool, "%s", mp_bytes_text(p.report.ranks[r].peak_bytes));
        if (!notes[r]) st = MP_NO_MEMORY(&err);
    }
    if (st == MP_OK) st = mp_pipeline_picture(&p.report.shape, p.report.played, p.report.title, notes, file.path, &err);
    return picture_file_close(&file, &o->output, st, &err) == MP_OK ? EXIT_DONE : output_failed(&err);
}
