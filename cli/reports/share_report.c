/* share_report.c - prints how a card is divided among jobs: budgets and times, the price of memory, other ways of sharing, and
 * memory limits for MPS. */
#include "cli/reports/share.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/options/outputs.h"
#include "cli/reports/recomputation.h"
#include "cli/reports/report.h"
#include "formats/json/json.h"
#include "memplan/check.h"
#include "memplan/plan_json.h"

static const char *const way_texts[MP_N_SHARE_WAYS] = {"beside each other", "by turns"};
static const double TICK = MP_SHARING_TICK, GIB = 0x1p30;

/* ---- functions for the answer as text and as JSON ---- */

/* Returns the bytes of the card that a way of sharing uses, reserves included. */
static int64_t with_reserves(const mp_sharing *s, mp_share_way way, int64_t bytes)
{
    return bytes + mp_sharing_processes(way, s->n_jobs) * s->room.reserve_bytes;
}

static int64_t keep_all_ticks(const mp_sharing *s)
{
    int64_t total = 0, longest = 0;
    for (size_t i = 0; i < s->n_jobs; i++) {
        const int64_t ticks = mp_sharing_job_of(s, i)->plans.keep_all_ticks;
        total += ticks;
        longest = ticks > longest ? ticks : longest;
    }
    return mp_sharing_goal(s, s->way) == MP_SHARE_TOTAL ? total : longest;
}

static const mp_share_option *option_of(const mp_sharing *s, mp_share_way way, size_t job)
{
    return &mp_sharing_job_of(s, job)->plans.options[s->ways[way].split.chosen[job]];
}

/* True if memory limits for MPS are useful: the jobs fit on the card, and the card is not the CPU. */
static bool has_limits(const mp_sharing *s)
{
    const mp_program *program = mp_sharing_job_of(s, 0)->workload.program;
    return s->ways[s->way].split.fits && !(program && program->backend->is_host);
}

/* Returns the memory limit of a process for MPS, in MiB. If jobs run at the same time, the process is that of job number `job`.
 * If jobs run by turns, it is the process that all jobs share. */
static int64_t limit_mib(const mp_sharing *s, size_t job)
{
    const int64_t mib = 1024 * 1024;
    const int64_t bytes = s->way == MP_SHARE_BESIDE ? option_of(s, s->way, job)->bytes : s->ways[s->way].split.bytes;
    return (bytes + s->room.reserve_bytes + mib - 1) / mib;
}

/* ---- plan files ---- */

mp_status sharing_write_plans(const mp_sharing *s, const char *name, mp_error *err)
{
    const size_t *chosen = s->ways[s->way].split.chosen;
    for (size_t i = 0; i < s->n_jobs; i++) {
        const mp_sharing_job *job = mp_sharing_job_of(s, i);
        mp_plan plan = *job->plans.plans[chosen[i]];
        plan.budget_bytes = mp_plan_need(&plan);
        MP_CHECK(mp_plan_check(job->workload.graph, &plan, err));
        MP_CHECK(mp_plan_write(&plan, job->workload.graph, output_part(name, "job", (int)i + 1), err));
    }
    return MP_OK;
}

/* ---- as text ---- */

/* Returns "a", "a and b" or "a, b and c" for the first n jobs. */
static const char *names_text(const mp_sharing *s, size_t n)
{
    const char *text = "";
    for (size_t i = 0; i < n; i++)
        text = mp_text("%s%s%s", text, !i ? "" : i + 1 < n ? "; " : " and ", mp_sharing_job_of(s, i)->workload.title);
    return text;
}

/* Returns the program that trains all jobs, as ", in PyTorch"; "" if the jobs are trained by different programs. */
static const char *program_of(const mp_sharing *s)
{
    const char *program = workload_program(&mp_sharing_job_of(s, 0)->workload);
    for (size_t i = 1; i < s->n_jobs; i++)
        if (strcmp(workload_program(&mp_sharing_job_of(s, i)->workload), program) != 0) return "";
    return *program ? mp_text("%s,", program) : "";
}

static const char *card_text(const mp_sharing *s)
{
    if (!*s->room.name) return mp_text("%s", mp_bytes_text(s->room.memory_bytes));
    return mp_text("the %s of %s", mp_bytes_text(s->room.memory_bytes), s->room.name);
}

static const char *bound_text(const mp_sharing_way *w)
{
    return !w->bound.fits ? "-" : seconds_text((double)w->bound.ticks * TICK);
}

static void print_verdict(const mp_sharing *s, const options *o)
{
    const mp_sharing_way *w = &s->ways[s->way];
    const char *color = o->talk.color, *within = card_text(s), *how = way_texts[s->way];
    if (w->split.fits) {
        const char *time = seconds_text((double)w->split.ticks * TICK);
        const char *extra = mp_extra_text((double)w->split.ticks, (double)keep_all_ticks(s));
        const char *bound = w->split.ticks <= w->bound.ticks ? "and no split takes less"
                                                             : mp_text("and no split takes less than %s", bound_text(w));
        screen_verdict(color, SCREEN_GOOD, "%s%s in %s, %s: %s %s (%s), %s.", names_text(s, s->n_jobs), program_of(s), within,
                       how, mp_sharing_goal(s, s->way) == MP_SHARE_TOTAL ? "all of it in" : "the longest in", time, extra,
                       bound);
        return;
    }
    const int64_t need = with_reserves(s, s->way, w->split.least_bytes);
    screen_verdict(color, w->bound.fits ? SCREEN_OPEN : SCREEN_BAD,
                   "%s%s in %s, %s: job %zu (%s) cannot join%s; all of them need %s, %s more than there is.",
                   names_text(s, s->n_jobs), program_of(s), within, how, w->refused + 1,
                   mp_sharing_job_of(s, w->refused)->workload.title, w->bound.fits ? ", as far as was found" : "",
                   mp_bytes_text(need), mp_bytes_text(need - s->room.memory_bytes));
}

/* Prints the line of job i with its budget. If the jobs do not fit, prints the memory of the job's smallest plan instead. */
static void print_job(const mp_sharing *s, size_t i, bool verbose)
{
    const mp_sharing_way *w = &s->ways[s->way];
    const mp_share_plans *p = &mp_sharing_job_of(s, i)->plans;
    const mp_share_option *o = w->split.fits ? option_of(s, s->way, i) : &p->options[0];
    const char *exact = verbose ? mp_text("  %s bytes", count_text(o->bytes)) : "";
    screen_row("  %2zu  %11s  %11s  %11s  %9s  %9s  %s%s", i + 1, mp_bytes_text(o->bytes), mp_bytes_text(p->static_bytes),
               mp_bytes_text(p->keep_all_bytes), mp_extra_text((double)o->ticks, (double)p->keep_all_ticks),
               seconds_text((double)o->ticks * TICK), mp_sharing_job_of(s, i)->workload.title, exact);
}

/* Prints the peaks of the jobs' keep-all under the other rules (PyTorch's or memplan's). */
static void print_others(const mp_sharing *s)
{
    const char *list = "", *name = "", *option = "";
    for (size_t i = 0; i < s->n_jobs; i++) {
        const mp_other_rules *other = &mp_sharing_job_of(s, i)->other;
        if (other->is_known) name = other_rules_name(other), option = other_rules_option(other);
        list = mp_text("%s%s%s", list, *list ? ", " : "", other->is_known ? mp_bytes_text(other->peak_bytes) : "not known");
    }
    if (*name) screen_text(2, "  %s keep all takes %s (%s)", name, list, option);
}

/* For each job that is a graph of a rank, prints the time of its plan's recomputation and the part that communication hides. A
 * job whose file is a model runs on one card, so it has no network. */
static mp_status print_recomputations(const mp_sharing *s, mp_error *err)
{
    for (size_t i = 0; i < s->n_jobs && s->ways[s->way].split.fits; i++) {
        const mp_sharing_job *job = mp_sharing_job_of(s, i);
        const mp_plan *plan = job->plans.plans[s->ways[s->way].split.chosen[i]];
        MP_CHECK(print_recomputation(&job->workload, plan, mp_text("  job %zu: ", i + 1), err));
    }
    return MP_OK;
}

/* Prints the accuracy of the seconds of each job whose sentence differs from the previous job's. */
static void print_accuracies(const mp_sharing *s)
{
    const char *last = "";
    for (size_t i = 0; i < s->n_jobs; i++) {
        const char *accuracy = mp_workload_accuracy(&mp_sharing_job_of(s, i)->workload);
        if (strcmp(accuracy, last) != 0) report_accuracy(accuracy);
        last = accuracy;
    }
}

static mp_status print_jobs(const mp_sharing *s, const options *o, mp_error *err)
{
    screen_row("  %2s  %11s  %11s  %11s  %9s  %9s", "", s->ways[s->way].split.fits ? "budget" : "smallest", "static",
               "keep all", "extra", "time");
    for (size_t i = 0; i < s->n_jobs; i++) print_job(s, i, o->talk.verbose);
    if (s->room.reserve_bytes)
        screen_text(2, "  and %s for context and libraries of each process (--reserve)", mp_bytes_text(s->room.reserve_bytes));
    print_others(s);
    MP_CHECK(print_recomputations(s, err));
    print_accuracies(s);
    return MP_OK;
}

/* Prints the price of memory in seconds per GiB. Also prints how much more memory the next faster split requires. */
static void print_price(const mp_sharing *s)
{
    const mp_sharing_way *w = &s->ways[s->way];
    const mp_share_split *x = &w->split;
    const char *more = mp_bytes_text(x->next_bytes - mp_sharing_capacity(s, s->way, s->n_jobs));
    putchar('\n');
    if (x->next_bytes < 0) {
        screen_text(0, "More memory is worth nothing.");
        return;
    }
    const double gib = (double)x->price_ticks / (double)x->price_bytes * GIB * TICK;
    screen_text(0, "The price of a GiB is %s: at it no split of these plans takes less than %s. With %s more it would be %s.",
                seconds_text(gib), seconds_text((double)x->hull_ticks * TICK), more,
                seconds_text((double)x->next_ticks * TICK));
}

static void print_ways(const mp_sharing *s)
{
    putchar('\n');
    screen_row("  %-18s  %11s  %11s  %9s  %9s", "", "at least", "takes", "time", "bound");
    for (int k = 0; k < MP_N_SHARE_WAYS; k++) {
        const mp_share_way way = (mp_share_way)k;
        const mp_share_split *x = &s->ways[way].split;
        const char *least = s->is_searched ? mp_bytes_text(with_reserves(s, way, x->least_bytes)) : "-";
        if (x->fits)
            screen_row("  %-18s  %11s  %11s  %9s  %9s", way_texts[way], least, mp_bytes_text(with_reserves(s, way, x->bytes)),
                       seconds_text((double)x->ticks * TICK), bound_text(&s->ways[way]));
        else
            screen_row("  %-18s  %11s  does not fit", way_texts[way], least);
    }
}

static void print_limits(const mp_sharing *s)
{
    const size_t n = (size_t)mp_sharing_processes(s->way, s->n_jobs);
    puts("\nUnder MPS:");
    for (size_t i = 0; i < n; i++)
        screen_row("  export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=\"0=%lldM\"  # %s", (long long)limit_mib(s, i),
                   n == 1 ? "all jobs" : mp_sharing_job_of(s, i)->workload.title);
}

mp_status print_sharing(const mp_sharing *s, const options *o, mp_error *err)
{
    print_verdict(s, o);
    if (o->talk.quiet) return MP_OK;
    putchar('\n');
    MP_CHECK(print_jobs(s, o, err));
    if (s->ways[s->way].split.fits) print_price(s);
    print_ways(s);
    if (!s->is_searched)
        screen_text(0, "Everything fits with all activations kept, so no smaller plans were searched for. A smaller --memory "
                       "shows the least that is needed.");
    if (has_limits(s)) print_limits(s);
    putchar('\n');
    print_verdict(s, o);
    return MP_OK;
}

/* ---- as JSON ---- */

static json_t *options_json(const mp_share_option *options, size_t n)
{
    json_t *list = json_array();
    for (size_t k = 0; k < n; k++)
        mp_json_append(
            &list, json_pack("{s:I, s:f}", "bytes", (json_int_t)options[k].bytes, "seconds", (double)options[k].ticks * TICK));
    return list;
}

static mp_status jobs_json(const mp_sharing *s, json_t **out, mp_error *err)
{
    json_t *list = *out = json_array();
    for (size_t i = 0; i < s->n_jobs; i++) {
        const mp_sharing_job *j = mp_sharing_job_of(s, i);
        const mp_share_plans *p = &j->plans;
        const int64_t batch = mp_workload_batch(&j->workload);
        const char *name = j->workload.graph->name;
        const char *rules = *workload_program(&j->workload) ? mp_rules_name(mp_workload_rules(&j->workload)) : NULL;
        json_t *job = json_pack("{s:o, s:s?, s:o, s:o, s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:s?}", "model",
                                mp_json_text(name ? name : ""), "rules", rules, "other_rules", other_rules_json(&j->other),
                                "batch", mp_json_integer_if(batch > 0, batch), "steps", (json_int_t)j->n_steps, "static_bytes",
                                (json_int_t)p->static_bytes, "floor_bytes", (json_int_t)p->floor_bytes, "baseline_peak_bytes",
                                (json_int_t)p->keep_all_bytes, "baseline_seconds", (double)p->keep_all_ticks * TICK, "options",
                                options_json(p->options, p->n), "bounds", options_json(p->bounds, p->n_bounds), "bound_covers",
                                p->bound_orders ? mp_bound_orders_text(p->bound_orders) : NULL);
        accuracy_json(mp_workload_accuracy(&j->workload), &job);
        mp_status st = MP_OK;
        if (s->ways[s->way].split.fits)
            st = recomputation_json(&j->workload, p->plans[s->ways[s->way].split.chosen[i]], &job, err);
        mp_json_append(&list, job);
        *out = list;
        MP_CHECK(st);
    }
    return MP_OK;
}

static json_t *budgets_json(const mp_sharing *s, mp_share_way way)
{
    if (!s->ways[way].split.fits) return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_jobs; i++) mp_json_append(&list, json_integer((json_int_t)option_of(s, way, i)->bytes));
    return list;
}

static json_t *ways_json(const mp_sharing *s)
{
    json_t *list = json_array();
    for (int k = 0; k < MP_N_SHARE_WAYS; k++) {
        const mp_share_way way = (mp_share_way)k;
        const mp_sharing_way *w = &s->ways[way];
        const mp_share_split *x = &w->split;
        const bool has_next = x->fits && x->next_bytes >= 0;
        const double price = x->fits ? (double)x->price_ticks / (double)x->price_bytes * GIB * TICK : 0;
        json_t *one =
            json_pack("{s:s, s:b, s:I, s:o, s:o, s:o, s:o, s:o}", "mode", mp_share_way_name(way), "fits", (int)x->fits,
                      "capacity_bytes", (json_int_t)mp_sharing_capacity(s, way, s->n_jobs), "smallest_bytes",
                      mp_json_integer_if(s->is_searched, x->least_bytes), "bytes", mp_json_integer_if(x->fits, x->bytes),
                      "seconds", mp_json_real_if(x->fits, (double)x->ticks * TICK), "bound_seconds",
                      mp_json_real_if(w->bound.fits, (double)w->bound.ticks * TICK), "budgets", budgets_json(s, way));
        mp_json_set(&one, "refusal_is_proved", json_boolean(!w->bound.fits));
        mp_json_set(&one, "refused_job", mp_json_integer_if(!x->fits, (int64_t)w->refused));
        mp_json_set(&one, "price_seconds_per_gib", mp_json_real_if(x->fits, price));
        mp_json_set(&one, "price_bound_seconds", mp_json_real_if(x->fits, (double)x->hull_ticks * TICK));
        mp_json_set(&one, "next_bytes", mp_json_integer_if(has_next, x->next_bytes));
        mp_json_set(&one, "next_seconds", mp_json_real_if(has_next, (double)x->next_ticks * TICK));
        mp_json_append(&list, one);
    }
    return list;
}

static json_t *limits_json(const mp_sharing *s)
{
    if (!has_limits(s)) return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < (size_t)mp_sharing_processes(s->way, s->n_jobs); i++)
        mp_json_append(&list, json_string(mp_text("0=%lldM", (long long)limit_mib(s, i))));
    return list;
}

mp_status print_sharing_json(const mp_sharing *s, json_t *run, mp_error *err)
{
    json_t *jobs;
    const mp_status st = jobs_json(s, &jobs, err);
    if (st != MP_OK) {
        json_decref(jobs);
        json_decref(run);
        return st;
    }
    return answer_in_json("share",
                          json_pack("{s:s, s:I, s:I, s:s, s:s, s:b, s:o, s:o, s:o, s:o}", "device", s->room.name,
                                    "memory_bytes", (json_int_t)s->room.memory_bytes, "reserve_bytes",
                                    (json_int_t)s->room.reserve_bytes, "mode", mp_share_way_name(s->way), "goal",
                                    mp_share_goal_name(s->goal), "complete", (int)!s->stopped, "jobs", jobs, "ways",
                                    ways_json(s), "mps_limits", limits_json(s), "run", run),
                          err);
}
