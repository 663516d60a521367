/* cmd_plan.c - the command plan: searches for a plan within a budget, writes it to a file, and prints a report. */
#include <stdio.h>
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/pipeline.h"
#include "cli/reports/plan.h"
#include "cli/reports/progress.h"
#include "estimator/base/clock.h"
#include "executor/workload/workload.h"
#include "formats/json/plan_json.h"
#include "memplan/budget.h"
#include "memplan/workloads/other_rules.h"

static bool is_by_modules(const search_options *o)
{
    return !strcmp(o->granularity, "module");
}

/* Checks the options for plans in which whole modules are wrapped in torch.utils.checkpoint. Such plans are for PyTorch, which
 * assigns offsets itself, so options about offsets are refused. */
static int settle_modules(options *o)
{
    const char *other = o->search.checkpoints ? "--checkpoints" : NULL;
    if (option_given(o, OPT_SOLVER)) other = "--solver";
    if (o->model.offload.n) other = "--offload";
    if (other) return usage_error("--granularity module has its own search, which contradicts %s", other);
    if (!option_given(o, OPT_RULES)) o->model.rules = "pytorch";
    o->search.offsets = false;
    return EXIT_DONE;
}

/* Checks combinations of options that the option table cannot express. */
static int check_plan_options(options *o, mp_budget *b)
{
    const char *why = NULL;
    bool segments = !strcmp(o->search.solver, "segments");
    if (o->search.checkpoints && option_given(o, OPT_SOLVER) && !segments)
        return usage_error("--checkpoints is for --solver segments, which contradicts --solver %s", o->search.solver);
    if (o->search.checkpoints && o->search.moves)
        return usage_error("--checkpoints fixes the tensors to keep, which contradicts --moves");
    if (o->search.checkpoints) o->search.solver = "segments";
    if (o->talk.json && o->output.out && !strcmp(o->output.out, "-"))
        return usage_error("--json and -o - both write to standard output; omit one of them");
    if (!o->search.budget && !o->search.checkpoints && strcmp(o->search.solver, "none")) o->search.budget = "device";
    if (o->search.budget && !mp_budget_parse(o->search.budget, b, &why))
        return usage_error("--budget: '%s' %s", o->search.budget, why);
    if (o->search.budget && b->kind == MP_BUDGET_FREE && !option_given(o, OPT_DEVICE))
        return usage_error("--budget auto needs --device: cuda for the free memory of the GPU, or the name of a card");
    if (o->search.budget && b->kind == MP_BUDGET_DEVICE) options_take_card(o);
    if (mp_row_chunks_are_open(&o->model) && (!o->search.budget || o->search.checkpoints))
        return usage_error("--row-chunks auto needs --budget, and does not account for --checkpoints; write head=N");
    return is_by_modules(&o->search) ? settle_modules(o) : EXIT_DONE;
}

/* Reads --without, which names stages of the bound and searchers of `auto` that do not run. Sets stages_off and solvers_off of
 * a request. */
static int read_without(const char *list, mp_request *off)
{
    char name[32];
    for (const char *at = list, *end; at; at = *end ? end + 1 : NULL) {
        end = at + strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
        if (!mp_request_switch_off(off, solver_present_name(name)))
            return usage_error("--without: '%.*s' is neither a stage of the bound nor a searcher of auto", (int)(end - at), at);
    }
    return EXIT_DONE;
}

/* Converts the options to a request of the search. The caller releases *checkpoints with mp_free. */
static mp_status request_of(const outcome *out, const mp_request *off, int **checkpoints, mp_request *request, mp_error *err)
{
    const options *o = out->asked;
    *request = outcome_request(out);
    if (is_by_modules(&o->search)) request->own = mp_solver_of_modules();
    request->wants_bound = true;
    request->explains_bound = o->search.explain_bound;
    request->stages_off = off->stages_off;
    request->solvers_off = off->solvers_off;
    if (o->search.checkpoints) {
        const size_t n_notes = out->workload->n_notes;
        MP_CHECK(mp_workload_checkpoints(out->workload, o->search.checkpoints, checkpoints, &request->n_checkpoints, err));
        print_notes(out->workload, n_notes);
    }
    request->checkpoints = *checkpoints;
    return MP_OK;
}

static mp_status search(options *o, outcome *out, mp_workload *whole, mp_request *request, mp_error *err)
{
    const double start = mp_clock_now();
    const int n_chunks = out->row_chunks.n;
    mp_status st = outcome_search(out, whole, request, err);
    if (st != MP_OK) mp_error_locate(err, out->workload->path, 0, 0);
    if (st == MP_OK && out->row_chunks.n < n_chunks) { /* a plan was found only with whole regions */
        o->model.row_chunks = out->row_chunks.setting;
        MP_CHECK(mp_problem_floor(out->workload->problem, &out->graph_floor_bytes, NULL, err));
    }
    if (st == MP_OK && request->graph->n_tiers > 1) {
        MP_CHECK(find_plan_offload(out, request, err));
        out->planning_seconds = mp_clock_now() - start;
    }
    return st;
}

/* For --row-chunks auto: chooses the numbers of chunks, and loads the workload with them. The budget and the figures of
 * keep-all still refer to the workload with whole regions, which `whole` then owns. */
static mp_status choose_row_chunks(options *o, outcome *out, mp_workload *whole, const mp_request *request, mp_error *err)
{
    mp_request tried = *request;
    const int64_t budget_bytes = out->budget_bytes, keep_all_bytes = out->keep_all_bytes, keep_all_ticks = out->keep_all_ticks;
    tried.budget_bytes = budget_bytes;
    tried.start = out->ends.smallest;
    MP_CHECK(mp_row_chunks_choose(out->workload, &o->model, &tried, &out->row_chunks, err));
    o->model.row_chunks = out->row_chunks.setting;
    out->floor_bytes = out->row_chunks.floor_bytes;
    if (out->row_chunks.n == 1) return MP_OK;
    *whole = *out->workload;
    *out->workload = (mp_workload){0};
    MP_CHECK(load_workload(o->operands[0], o, out->workload, err));
    MP_CHECK(outcome_start(out, err));
    out->floor_bytes = out->row_chunks.floor_bytes;
    out->budget_bytes = budget_bytes;
    out->keep_all_bytes = keep_all_bytes;
    out->keep_all_ticks = keep_all_ticks;
    return MP_OK;
}

static mp_status prepare(options *o, const mp_budget *b, const mp_request *off, outcome *out, mp_workload *whole,
                         int **checkpoints, mp_request *request, mp_error *err)
{
    MP_CHECK(load_workload(o->operands[0], o, out->workload, err));
    if (!o->talk.quiet || o->talk.json) MP_CHECK(mp_other_rules_of(&o->model, out->workload, &out->other, err));
    MP_CHECK(outcome_start(out, err));
    MP_CHECK(request_of(out, off, checkpoints, request, err));
    if (!o->search.budget) return MP_OK;
    MP_CHECK(outcome_find_budget(out, b, request, err));
    if (!mp_row_chunks_are_open(&o->model)) return MP_OK;
    MP_CHECK(choose_row_chunks(o, out, whole, request, err));
    return request_of(out, off, checkpoints, request, err);
}

static bool prints_text(const options *o)
{
    return !o->talk.json && !(o->output.out && !strcmp(o->output.out, "-"));
}

/* If the budget is below the floor, prints at once that no plan exists, before the search for the smallest sufficient budget
 * begins. */
static void refuse_at_once(const options *o, outcome *out)
{
    if (!is_below_floor(out) || !prints_text(o)) return;
    print_refusal(out);
    (void)fflush(stdout);
    out->has_refusal = true;
}

static int search_failed(const mp_error *err)
{
    const int rc = input_failed(err);
    return err->code == MP_LIMIT ? no_plan_status(false) : rc;
}

/* Writes the plan file, then prints the answer. If the file cannot be written, the answer is printed nevertheless. */
static int answer(const options *o, outcome *out, mp_error *err)
{
    mp_error unwritten = {0};
    mp_status written = MP_OK, printed = MP_OK;
    int rc = EXIT_DONE;
    if (!out->answer.plan) rc = no_plan_status(is_refused(out));
    if (out->answer.plan && o->output.out)
        written = mp_plan_write(out->answer.plan, out->workload->graph, o->output.out, &unwritten);
    if (out->answer.plan && o->output.out && written == MP_OK) out->written = o->output.out;
    const bool is_optimal =
        out->answer.plan && out->answer.bound.ticks >= 0 && out->answer.plan->ticks <= out->answer.bound.ticks;
    if (out->answer.stopped && !is_optimal && (!o->talk.quiet || out->interrupted))
        complain("the search was cut short; this is the best it had found");
    if (o->talk.json)
        printed = print_plan_json(out, err);
    else if (prints_text(o))
        printed = print_plan(out, err);
    if (printed != MP_OK) rc = output_failed(err);
    if (written != MP_OK) rc = output_failed(&unwritten);
    return rc;
}

int cmd_plan(options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    MP_CLEARED_BY(mp_workload_free) mp_workload whole = {0};
    MP_CLEARED_BY(outcome_free) outcome out = {.workload = &s, .asked = o};
    mp_request request;
    MP_OWNED int *checkpoints = NULL;
    mp_budget b;
    mp_request off = {0};
    int rc = check_plan_options(o, &b);
    if (!rc && o->search.without) rc = read_without(o->search.without, &off);
    if (rc) return rc;
    bool is_pipeline;
    if (pipeline_asked(o, &is_pipeline, &err) != MP_OK) return input_failed(&err);
    if (is_pipeline) return pipeline_plan(o, &b, off.stages_off, off.solvers_off);
    out.stages_off = off.stages_off;
    if (prepare(o, &b, &off, &out, &whole, &checkpoints, &request, &err) != MP_OK) return input_failed(&err);
    refuse_at_once(o, &out);
    if (out.has_refusal && o->talk.quiet) return EXIT_NO;
    return search(o, &out, &whole, &request, &err) == MP_OK ? answer(o, &out, &err) : search_failed(&err);
}
