/* cmd_estimate.c - the command estimate: reports how much memory a training step needs, at which node, and for which tensors.
 * Prints text or JSON. */
#include <stdio.h>

#include "cli/estimates/estimate.h"
#include "cli/messages/messages.h"
#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/budget_bytes.h"
#include "cli/reports/module_rows.h"
#include "cli/reports/needs_report.h"
#include "cli/reports/pipeline.h"
#include "cli/reports/report.h"
#include "cli/reports/tensor_rows.h"
#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "executor/workload/workload.h"
#include "formats/json/json.h"
#include "memplan/ranks/exact_mesh.h"
#include "memplan/summary.h"
#include "memplan/workloads/own_device.h"
#include "memplan/workloads/workload_needs.h"

enum { CUT_ROWS = 6, MODULE_ROWS = 4, MODULE_ROWS_ALL = 40 };

typedef struct estimate {
    mp_workload workload;
    mp_summary summary;
    const mp_timeline *timeline; /* timeline of keep-all; a step's index may differ from the index of its node */
    double step_seconds;         /* seconds of a training step of the mesh; 0: no mesh, or one rank of a pipeline */
    int peak_node;               /* the node at keep-all's peak; -1: the graph has no nodes */
    int64_t n_parameters;        /* number of all parameters (elements); -1: unknown, as for a graph file */
    int64_t n_trained;           /* number of trained parameters (elements); -1: unknown */
    mp_rules rules;
    const int *cuts; /* the storages that are cut tensors, as indices */
    size_t n_cuts;
    bool has_updates; /* true: --fuse was given */
    mp_update_effects updates;
    mp_savings savings;
    mp_device_capacity room; /* memory of the device named by --device; its name is "" if --device was not given */
    mp_other_rules other;
    mp_needs needs;       /* memory of a process that keeps everything; process_bytes is -1 if the card is unknown */
    const options *asked; /* the options of the command */
} estimate;

/* Returns the column of --sort. */
static mp_summary_column column_of(const options *o)
{
    return o->output.sort ? (mp_summary_column)mp_summary_column_find(o->output.sort) : MP_SUMMARY_NETWORK;
}

/* True if the needs of a process decide whether the device has enough memory. Otherwise the reserve does. */
static bool needs_decide(const estimate *e)
{
    return e->room.visible_bytes > 0;
}

static bool fits(const estimate *e)
{
    if (needs_decide(e)) return e->needs.likely_bytes <= e->needs.card_bytes;
    return e->timeline->peak_bytes <= mp_capacity_bytes(&e->room);
}

/* Returns the number of rows of the table of modules with which the whole answer has 24 lines. */
static size_t module_rows(const estimate *e)
{
    const int device = *e->room.name ? 2 : 0; /* number of additional lines if --device was given */
    const int accuracy = *mp_workload_accuracy(&e->workload) != 0;
    const int more = accuracy + e->other.is_known + (e->summary.workspace_bytes > 0) +
                     (needs_decide(e) ? 0 : e->room.reserve_bytes > 0) + device + needs_lines(&e->needs);
    return (size_t)(more < 1 ? MODULE_ROWS : more < MODULE_ROWS - 1 ? MODULE_ROWS + 1 - more : 2);
}

/* Finds keep-all's timeline, the node at its peak, and the memory of the process. */
static mp_status find_peak(estimate *e, mp_error *err)
{
    const mp_step *steps;
    MP_CHECK(mp_problem_earliest(e->workload.problem, &steps, &e->timeline, err));
    if (option_given(e->asked, OPT_DEVICE)) {
        mp_capacity_of_workload(&e->workload, &e->asked->model, &e->room);
        MP_CHECK(mp_workload_needs(&e->workload, &e->asked->model, steps, e->timeline, -1, &e->needs, err));
        mp_capacity_take_needs(&e->workload, &e->asked->model, &e->needs, e->timeline->peak_bytes, &e->room);
    }
    e->peak_node = e->timeline->peak_step < 0 ? -1 : steps[e->timeline->peak_step].node;
    const mp_workload_options *model = &e->asked->model;
    if (!mp_mesh_devices(&model->mesh) || e->workload.rank.shape.n_ranks) return MP_OK;
    return mp_workload_step_seconds(&e->workload, model->accumulate ? model->accumulate : 1, steps, e->timeline->n_steps,
                                    &e->step_seconds, err);
}

static mp_status make_estimate(const options *o, estimate *e, mp_error *err)
{
    const mp_graph *graph;
    MP_CHECK(load_workload(o->operands[0], o, &e->workload, err));
    graph = e->workload.graph;
    e->rules = mp_workload_rules(&e->workload);
    mp_workload_parameters(&e->workload, &o->model, &e->n_parameters, &e->n_trained);
    MP_CHECK(mp_summarize(graph, e->rules, &e->summary, err));
    MP_CHECK(find_peak(e, err));
    MP_CHECK(mp_problem_cuts(e->workload.problem, &e->cuts, &e->n_cuts, err));
    e->has_updates = option_given(o, OPT_FUSE) && e->workload.model;
    if (e->has_updates) MP_CHECK(mp_workload_update_effects(o->operands[0], &o->model, &e->updates, err));
    if (!o->output.csv && (!o->talk.quiet || o->talk.json || *e->room.name))
        MP_CHECK(mp_other_rules_of(&o->model, &e->workload, &e->other, err));
    if (!o->talk.quiet && !o->output.csv)
        MP_CHECK(mp_savings_find(&o->model, &e->workload, e->timeline->peak_bytes, &e->savings, err));
    return MP_OK;
}

/* Returns an array of all storages that are live at the peak, largest first; NULL if out of memory. */
static json_t *peak_tensors_json(const estimate *e)
{
    const mp_graph *graph = e->workload.graph;
    const mp_timeline *timeline = e->timeline;
    json_t *list = json_array();
    int *spans = mp_alloc(timeline->n_spans, sizeof *spans);
    size_t n = 0;
    if (!spans) mp_json_append(&list, NULL);
    if (spans && timeline->peak_step >= 0)
        n = mp_timeline_holders(graph, timeline, timeline->peak_step, spans, timeline->n_spans);
    for (size_t k = 0; k < n; k++) {
        const int s = timeline->spans[spans[k]].storage;
        mp_label label;
        mp_json_append(&list, json_pack("{s:o, s:s, s:I}", "tensor", mp_json_text(mp_storage_title(graph, s, &label)), "kind",
                                        mp_kind_name(graph->storages[s].kind), "bytes", (json_int_t)graph->storages[s].bytes));
    }
    mp_free(spans);
    return list;
}

static json_t *cut_tensors_json(const estimate *e)
{
    json_t *list = json_array();
    mp_label label;
    for (size_t k = 0; k < e->n_cuts; k++)
        mp_json_append(&list, mp_json_text(mp_storage_title(e->workload.graph, e->cuts[k], &label)));
    return list;
}

/* Returns the memory of the device named by --device as JSON. Without --device it is JSON null. */
static json_t *device_json(const estimate *e)
{
    const mp_device_capacity *room = &e->room;
    if (!*room->name) return json_null();
    return json_pack("{s:s, s:I, s:I, s:b}", "name", room->name, "memory_bytes", (json_int_t)room->memory_bytes,
                     "reserve_bytes", (json_int_t)room->reserve_bytes, "fits", fits(e));
}

static json_t *guesses_json(const mp_model *model)
{
    const mp_guesses guesses = mp_model_guesses(model);
    return json_pack("{s:i, s:i}", "formulas", guesses.formulas, "loop_operators", guesses.loop_operators);
}

/* Returns the whole answer as JSON; NULL if out of memory. */
static json_t *estimate_json(const estimate *e, const options *o)
{
    const mp_graph *graph = e->workload.graph;
    const mp_summary *sum = &e->summary;
    const char *peak_node = e->peak_node < 0 ? NULL : graph->nodes[e->peak_node].name;
    const int64_t batch = mp_workload_batch(&e->workload);
    json_t *json = json_pack(
        "{s:o, s:o, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:f, s:f, s:o}", "model", text_or_null(graph->name),
        "batch", mp_json_integer_if(batch != 0, batch), "rules", mp_rules_name(e->rules), "n_parameters",
        mp_json_integer_if(e->n_parameters != -1, e->n_parameters), "parameter_bytes",
        (json_int_t)sum->kind_bytes[MP_KIND_PARAMETER], "gradient_bytes", (json_int_t)sum->kind_bytes[MP_KIND_GRADIENT],
        "optimizer_state_bytes", (json_int_t)sum->kind_bytes[MP_KIND_OPTIMIZER_STATE], "saved_activation_bytes",
        (json_int_t)sum->saved_activation_bytes, "workspace_bytes", (json_int_t)sum->workspace_bytes, "peak_bytes",
        (json_int_t)e->timeline->peak_bytes, "peak_node", text_or_null(peak_node), "forward_flops",
        flops_json(sum->forward_flops), "forward_seconds", (double)sum->forward_ticks * graph->tick_seconds, "backward_seconds",
        (double)sum->backward_ticks * graph->tick_seconds, "operators", json_array());
    mp_json_set(&json, "operators", operators_json(graph, sum, column_of(o)));
    const mp_inference_form *form = &e->workload.details->inference;
    if (e->workload.model)
        mp_json_set(
            &json, "inference_form",
            json_pack("{s:i, s:i, s:i}", "folded_norms", form->folded_norms, "norms", form->norms, "dropouts", form->dropouts));
    if (e->workload.model && e->rules == MP_RULES_PYTORCH) mp_json_set(&json, "guessed", guesses_json(e->workload.model));
    if (e->workload.model) mp_json_set(&json, "inputs", roles_json(e->workload.model, &o->model));
    if (e->workload.model) mp_json_set(&json, "synthetic_data", synthetic_json(e->workload.model));
    if (e->workload.model) mp_json_set(&json, "attention_form", attention_form_json(&e->workload.details->attention));
    accuracy_json(mp_workload_accuracy(&e->workload), &json);
    mp_json_set(&json, "device", device_json(e));
    mp_json_set(&json, "needs", needs_json(&e->needs));
    mp_json_set(&json, "static_bytes", json_integer(mp_graph_static_bytes(graph)));
    mp_json_set(&json, "peak_tensors", peak_tensors_json(e));
    mp_json_set(&json, "cut_tensors", cut_tensors_json(e));
    mp_json_set(&json, "modules", modules_json(graph, sum));
    mp_json_set(&json, "n_trained_parameters", mp_json_integer_if(e->n_trained != -1, e->n_trained));
    mp_json_set(&json, "savings", savings_json(&e->savings));
    mp_json_set(&json, "other_rules", other_rules_json(&e->other));
    if (e->has_updates) mp_json_set(&json, "updates", update_comparison_json(&e->updates));
    if (mp_mesh_devices(&o->model.mesh))
        mp_json_set(&json, "ranks", rank_traffic_json(&e->workload, &e->workload.traffic, e->step_seconds));
    return json;
}

static void print_row(const talk_options *o, const char *name, int64_t bytes, const char *note)
{
    screen_row("  %-18s %12s%s%s%s", name, mp_bytes_text(bytes), o->verbose ? mp_text("  %20s bytes", count_text(bytes)) : "",
               *note ? "  " : "", note);
}

/* Prints the verdict, which is the first and the last line: the required memory, and whether the device has enough. */
static void print_verdict(const talk_options *o, const estimate *e)
{
    const char *title = e->workload.title, *peak = mp_bytes_text(e->timeline->peak_bytes);
    const bool is_enough = fits(e);
    const char *where = needs_decide(e) ? needs_verdict(&e->needs, e->room.name) : mp_capacity_text(&e->room);
    if (*e->room.name)
        screen_verdict(o->color, is_enough ? SCREEN_GOOD : SCREEN_BAD, "%s%s: keeping everything takes %s%s. %s %s.", title,
                       workload_program(&e->workload), peak, other_rules_text(&e->other, e->timeline->peak_bytes),
                       is_enough ? "Fits" : "Does not fit", where);
    else
        screen_verdict(o->color, SCREEN_PLAIN, "%s: keeping everything takes %s.", title, peak);
}

static void print_simplified(const mp_simplify_report *r)
{
    const struct {
        int n;
        const char *what;
    } rows[] = {{r->folded, "folded"},
                {r->identities, "passed through"},
                {r->dead, "dead"},
                {r->merged, "merged with equal ones"},
                {r->factored, "factored"},
                {r->views, "views moved"},
                {r->patterns, "decomposed blocks recognised"},
                {r->transpositions, "transpositions folded into products"},
                {r->biases, "biases folded into products"}};
    const char *between = "";
    print("\nSimplified operators: ");
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (!rows[k].n) continue;
        print("%s%d %s", between, rows[k].n, rows[k].what);
        between = ", ";
    }
    print("%s\n", *between ? "" : "none");
}

static mp_status print_cuts(const estimate *e, mp_error *err)
{
    MP_OWNED const char **names = mp_alloc(e->n_cuts, sizeof *names);
    MP_OWNED mp_label *labels = mp_alloc(e->n_cuts, sizeof *labels);
    MP_ENSURE(names && labels, err, MP_NOMEM, "%zu names", e->n_cuts);
    for (size_t k = 0; k < e->n_cuts; k++) names[k] = mp_storage_title(e->workload.graph, e->cuts[k], &labels[k]);
    print("\nCut tensors (each splits the network in two: natural checkpoints): %zu\n", e->n_cuts);
    return report_tensors(names, e->n_cuts, CUT_ROWS, e->asked->talk.list, err);
}

/* Prints the names of the passes that have transformed the model before its graph was built, in the order in which they ran. */
static void print_passes(const mp_workload *w)
{
    const char *const *passes = mp_workload_passes(w);
    const char *list = *passes;
    for (size_t k = 1; list && passes[k]; k++) list = mp_text("%s, %s", list, passes[k]);
    if (list) screen_text(2, "Passes: %s.", list);
}

/* With -v: prints where the numbers of the answer come from, such as the rules and measured costs. */
static mp_status print_details(const options *o, const estimate *e, mp_error *err)
{
    if (e->workload.model) report_roles(e->workload.model, &o->model);
    if (e->workload.model && report_synthetic(e->workload.model, err) != MP_OK) return err->code;
    if (e->workload.model) print_simplified(&e->workload.details->simplified);
    const mp_sequence_report *cut = &e->workload.details->sequences;
    if (cut->n_layers)
        print("Sequences cut into chunks: %d recurrent layer%s, %d chunks (--chunk-steps)\n", cut->n_layers,
              cut->n_layers == 1 ? "" : "s", cut->n_chunks);
    report_attention_form(&e->workload.details->attention);
    print_passes(&e->workload);
    return MP_OK;
}

static mp_status print_estimate(const options *o, const estimate *e, mp_error *err)
{
    const mp_graph *graph = e->workload.graph;
    const mp_summary *sum = &e->summary;
    const bool all = o->talk.verbose || o->talk.list;
    const char *note = "", *count = count_text(e->n_parameters);
    print_verdict(&o->talk, e);
    if (o->talk.quiet) return MP_OK;
    putchar('\n');
    if (e->n_parameters >= 0) note = mp_text("(%s parameters)", count);
    if (e->n_trained < e->n_parameters) note = mp_text("(%s parameters, %s trained)", count, count_text(e->n_trained));
    print_row(&o->talk, "peak", e->timeline->peak_bytes,
              !json_object_get(e->workload.details->options, "rules") ? ""
              : e->rules == MP_RULES_PYTORCH                          ? "(as PyTorch trains it)"
                                                                      : "(as memplan trains it)");
    if (e->other.is_known)
        print_row(&o->talk, other_rules_name(&e->other), e->other.peak_bytes, mp_text("(%s)", other_rules_option(&e->other)));
    print_row(&o->talk, "parameters", sum->kind_bytes[MP_KIND_PARAMETER], note);
    print_row(&o->talk, "gradients", sum->kind_bytes[MP_KIND_GRADIENT], "");
    print_row(&o->talk, "optimizer state", sum->kind_bytes[MP_KIND_OPTIMIZER_STATE], "");
    print_row(&o->talk, "saved activations", sum->saved_activation_bytes, "(held when forward ends)");
    if (sum->workspace_bytes || all) print_row(&o->talk, "largest workspace", sum->workspace_bytes, "");
    if (e->room.reserve_bytes && !needs_decide(e))
        print_row(&o->talk, "reserve", e->room.reserve_bytes, "(context, libraries, allocator: --reserve)");
    report_needs(&e->needs, "Needs");
    mp_own_device own;
    const mp_device *device = mp_own_device_read(graph->target, &own) ? &own.profile : NULL;
    screen_text(2, "Forward %s in %s, backward %s%s%s%s.", flops_text(sum->forward_flops),
                seconds_text((double)sum->forward_ticks * graph->tick_seconds),
                seconds_text((double)sum->backward_ticks * graph->tick_seconds), device ? " (" : "",
                device ? device->title : "", device ? ")" : "");
    report_accuracy(mp_workload_accuracy(&e->workload));
    print_rank_traffic(&e->workload, &e->workload.traffic, e->step_seconds);
    if (e->peak_node >= 0) report_peak(graph, e->timeline, e->peak_node, !o->talk.verbose);
    const size_t rows = o->output.top ? (size_t)o->output.top + 1 : all ? MODULE_ROWS_ALL : module_rows(e);
    MP_CHECK(report_modules(graph, sum, rows, column_of(o), err));
    report_savings(&e->savings, all ? MP_SAVINGS_MAX : *e->room.name ? 4 : 5);
    if (e->has_updates) print_update_comparison(&e->updates);
    if (o->talk.verbose)
        MP_CHECK(print_details(o, e, err));
    else if (e->workload.details->attention.n_missed)
        report_attention_form(&e->workload.details->attention);
    if (all) MP_CHECK(print_cuts(e, err));
    if (o->output.per_op) MP_CHECK(report_operators(graph, sum, column_of(o), err));
    print_verdict(&o->talk, e);
    return MP_OK;
}

int cmd_estimate(options *o)
{
    mp_error err = {0};
    estimate e = {.asked = o, .needs.process_bytes = -1};
    int rc = EXIT_DONE;
    bool is_pipeline;
    if (pipeline_asked(o, &is_pipeline, &err) != MP_OK) return input_failed(&err);
    if (is_pipeline) return pipeline_estimate(o);
    if (o->output.csv && (o->talk.json || o->talk.quiet))
        return usage_error("--csv contradicts %s", o->talk.json ? "--json" : "-q");
    if (make_estimate(o, &e, &err) != MP_OK) {
        rc = input_failed(&err);
    } else if (o->talk.json) {
        rc = print_json("estimate", estimate_json(&e, o));
    } else if (o->output.csv) {
        if (operators_csv(e.workload.graph, &e.summary, column_of(o), &err) != MP_OK) rc = output_failed(&err);
    } else if (print_estimate(o, &e, &err) != MP_OK) {
        rc = output_failed(&err);
    }
    mp_summary_free(&e.summary);
    mp_workload_free(&e.workload);
    return rc;
}
