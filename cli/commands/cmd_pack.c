/* cmd_pack.c - the command pack: finds offsets for the buffers of a CSV file, or for the tensors of a plan. */
#include <stdio.h>
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/plan.h"
#include "cli/reports/progress.h"
#include "cli/reports/report.h"
#include "estimator/base/clock.h"
#include "executor/workload/workload.h"
#include "formats/json/plan_json.h"
#include "memplan/arena.h"
#include "memplan/budget.h"
#include "memplan/check.h"
#include "memplan/pack_csv.h"

typedef struct packing {
    progress shown;
    double started_at, shown_at; /* seconds */
    double time_limit;           /* seconds; 0: no limit */
    mp_pack_options options;
    mp_pack_result result;
    int64_t capacity; /* the value of --capacity in bytes; -1: the option was not given */
    int64_t before;   /* bytes of the arena in the plan that is packed; -1: the plan has no arena */
    const char *what; /* a noun for messages: "buffers" or "places" */
    size_t n;
} packing;

/* Called by the packer. Returns true to stop the search. */
static bool stop(void *data)
{
    packing *p = data;
    const double t = mp_clock_now() - p->started_at;
    if (p->time_limit > 0 && t > p->time_limit) return true;
    if (t < p->shown_at + 0.1) return false;
    p->shown_at = t;
    return !progress_next(&p->shown, mp_text("packing %zu %s  %.1f s", p->n, p->what, t));
}

static void start(const options *o, packing *p, const char *what, size_t n)
{
    p->what = what;
    p->n = n;
    p->options.stop = stop;
    p->options.data = p;
    p->started_at = mp_clock_now();
    progress_start(&p->shown, o, 0, INT64_MAX);
}

/* ---- the answer ---- */

static bool fits(const packing *p)
{
    return p->result.height >= 0 && (p->capacity < 0 || p->result.height <= p->capacity);
}

static bool is_proved(const packing *p)
{
    if (p->result.verdict == MP_PACK_INFEASIBLE) return true;
    return p->capacity >= 0 && !fits(p) ? p->result.bound > p->capacity : p->result.height == p->result.bound;
}

static int status_of(const packing *p)
{
    return fits(p) ? EXIT_DONE : no_plan_status(is_proved(p));
}

static int answer_json(const packing *p)
{
    const mp_pack_result *r = &p->result;
    const bool infeasible = !fits(p) && is_proved(p);
    json_t *height = r->height < 0 ? json_null() : json_integer(r->height);
    return print_json("pack", json_pack("{s:b, s:b, s:o, s:I, s:I}", "fits", fits(p), "infeasible", infeasible, "height",
                                        height, "lower_bound", (json_int_t)r->bound, "nodes", (json_int_t)r->nodes));
}

static void print_bytes(const char *what, int64_t bytes, const char *note)
{
    print("  %-12s %11s  %18s bytes%s\n", what, mp_bytes_text(bytes), count_text(bytes), note);
}

static int answer(const packing *p, const options *o)
{
    const mp_pack_result *r = &p->result;
    const int64_t gap = r->height - r->bound;
    if (o->talk.json) {
        const int rc = answer_json(p);
        return rc ? rc : status_of(p);
    }
    const char *path = o->operands[o->n_operands - 1];
    if (fits(p) && p->capacity >= 0)
        print("%s: %zu %s placed within %s bytes.\n\n", path, p->n, p->what, count_text(p->capacity));
    else if (fits(p))
        print("%s: %zu %s placed.\n\n", path, p->n, p->what);
    else if (p->capacity < 0 && is_proved(p))
        print("%s: no placement exists, which is proved: the given offsets overlap.\n\n", path);
    else if (is_proved(p))
        print("%s: no placement within %s bytes exists, which is proved: at least %s are needed.\n\n", path,
              count_text(p->capacity), count_text(r->bound));
    else
        print("%s: no placement within %s bytes was found; one may exist.\n\n", path, count_text(p->capacity));
    if (p->before >= 0) print_bytes("before", p->before, "");
    if (r->height >= 0) print_bytes("height", r->height, gap ? "" : "  the lowest there is");
    print_bytes("lower bound", r->bound, "  no placement is lower");
    if (r->height >= 0)
        print("  %-12s %9.2f %%  %18s bytes\n", "gap", r->bound > 0 ? 100.0 * (double)gap / (double)r->bound : 0,
              count_text(gap));
    print("  %-12s %31s\n", "nodes", count_text(r->nodes));
    return status_of(p);
}

/* ---- the two kinds of input: a CSV file, or a model with a plan ---- */

static int pack_table(const options *o, packing *p)
{
    const char *path = o->operands[0];
    mp_error err = {0};
    MP_CLEARED_BY(mp_pack_table_free) mp_pack_table table = {0};
    if (mp_pack_csv_read(path, &table, &err) != MP_OK) return input_failed(&err);
    start(o, p, "buffers", table.packing.n_items);
    mp_status st = o->output.minimize ? mp_pack_minimize(&table.packing, -1, &p->options, &p->result, &err)
                                      : mp_pack_solve(&table.packing, p->capacity, &p->options, &p->result, &err);
    progress_end(&p->shown);
    if (st != MP_OK) {
        mp_error_locate(&err, path, 0, 0);
        return input_failed(&err);
    }
    if (p->result.height >= 0) st = mp_pack_check(&table.packing, p->result.height, &err);
    if (st == MP_OK && fits(p) && o->output.out) st = mp_pack_csv_write(&table, o->output.out, &err);
    return st == MP_OK ? EXIT_DONE : output_failed(&err);
}

/* Packs the tensors of a plan. */
static mp_status pack_steps(const options *o, const mp_graph *graph, mp_plan *plan, packing *p, mp_error *err)
{
    p->before = plan->arena_bytes;
    start(o, p, "places", plan->n_places ? plan->n_places : plan->n_steps);
    const mp_status st =
        mp_arena_repack(graph, plan, o->output.minimize || p->capacity >= 0 ? &p->options : NULL, &p->result, err);
    progress_end(&p->shown);
    MP_CHECK(st);
    p->n = plan->n_places;
    if (plan->static_bytes + plan->arena_bytes > plan->budget_bytes) plan->budget_bytes = MP_NO_LIMIT;
    return mp_plan_check(graph, plan, err);
}

static int pack_plan(options *o, packing *p)
{
    mp_error err = {0};
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    if (load_workload_with_plan(o->operands[0], o->operands[1], o, &s, &err) != MP_OK) return input_failed(&err);
    mp_status st = pack_steps(o, s.graph, s.plan, p, &err);
    if (st == MP_OK && fits(p) && o->output.out) st = mp_plan_write(s.plan, s.graph, o->output.out, &err);
    return st == MP_OK ? EXIT_DONE : output_failed(&err);
}

int cmd_pack(options *o)
{
    packing p = {.shown_at = 0, .time_limit = o->search.time_limit, .capacity = -1, .before = -1};
    mp_budget capacity;
    const char *why = NULL;
    const bool is_table = o->n_operands == 1;
    if (o->talk.json && o->output.out && !strcmp(o->output.out, "-"))
        return usage_error("--json and -o - both write to standard output; omit one of them");
    if (o->output.capacity && !mp_budget_parse(o->output.capacity, &capacity, &why))
        return usage_error("--capacity: '%s' %s", o->output.capacity, why);
    if (o->output.capacity && capacity.kind != MP_BUDGET_BYTES)
        return usage_error("--capacity: '%s' is not possible here; give a number of bytes", o->output.capacity);
    if (o->output.capacity) p.capacity = capacity.bytes;
    if (is_table && !o->output.capacity && !o->output.minimize)
        return usage_error("pack needs the size of the block; add --capacity BYTES or --minimize");
    if (!o->output.minimize && p.capacity > 0) p.options.enough = p.capacity;
    for (int k = 0; is_table && k < N_OPTIONS; k++)
        if (option_rows[k].key && option_given(o, (option_id)k))
            return usage_error("--%s applies to models, but pack with one operand reads buffers", option_rows[k].name);
    int rc = is_table ? pack_table(o, &p) : pack_plan(o, &p);
    if (rc) return rc;
    if (p.result.verdict == MP_PACK_LIMIT && (p.time_limit > 0 || o->output.minimize || p.capacity >= 0))
        complain("the search was cut short");
    if (o->output.out && !strcmp(o->output.out, "-")) return status_of(&p);
    return answer(&p, o);
}
