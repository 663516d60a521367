/* plan_offload.c - reports the copies of a plan to other tiers and back, and how long compute waits for them in a step. */
#include "cli/reports/plan.h"
#include "memplan/workloads/own_device.h"

#include "cli/messages/interrupt.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/reports/report.h"
#include "formats/base/text.h"
#include "formats/json/json.h"
#include "memplan/makespan.h"

/* Returns the largest number of seconds by which copies can slow down compute: each copied byte is also read or written once in
 * the device's memory. Negative: the device is unknown. */
static double slowdown_of(const mp_workload *s, const mp_copying *copying)
{
    const mp_backend *backend = s->program ? s->program->backend : NULL;
    mp_own_device device = {0};
    if (backend) device.profile = *backend->device(backend);
    if (!backend && !mp_own_device_read(s->graph->target, &device)) return -1;
    return (double)(copying->out_bytes + copying->in_bytes) / device.profile.bytes_per_second;
}

/* Prints a line for each kind of storage about which the plan decides: kept, recomputed or copied. */
static void print_fates(int64_t of_kinds[MP_N_KINDS][MP_N_FATES])
{
    for (int kind = MP_KIND_ACTIVATION; kind <= MP_KIND_SAVED; kind++) {
        const int64_t *bytes = of_kinds[kind];
        if (bytes[MP_FATE_KEPT] + bytes[MP_FATE_RECOMPUTED] + bytes[MP_FATE_COPIED] == 0) continue;
        screen_row("  %-10s %11s kept, %s recomputed, %s copied", mp_kind_name((mp_kind)kind),
                   mp_bytes_text(bytes[MP_FATE_KEPT]), mp_bytes_text(bytes[MP_FATE_RECOMPUTED]),
                   mp_bytes_text(bytes[MP_FATE_COPIED]));
    }
}

/* Returns the bytes of optimizer state that are stored in other tiers. */
static int64_t state_away(const mp_graph *graph)
{
    int64_t bytes = 0;
    for (int m = 1; m < (int)graph->n_tiers; m++) bytes += mp_graph_static_bytes_in(graph, m);
    return bytes;
}

static void print_state(const mp_graph *graph)
{
    if (state_away(graph))
        screen_row("  %-10s %11s away from the device but for its update", "state", mp_bytes_text(state_away(graph)));
}

static void print_waits(const outcome *out, const mp_plan *plan, const mp_copying *copying)
{
    const mp_graph *graph = out->workload->graph;
    const double tick = graph->tick_seconds;
    if (!copying->wait_ticks) {
        screen_row("  the step never waits for a copy");
        return;
    }
    const bool is_end = (size_t)copying->longest_wait == plan->n_steps;
    screen_text(4, "  the step waits %s for copies, longest (%s) %s%s", seconds_text((double)copying->wait_ticks * tick),
                seconds_text((double)copying->longest_wait_ticks * tick), is_end ? "at the end" : "before ",
                is_end ? "" : node_text(graph, plan->steps[copying->longest_wait].node));
}

/* Progress function of the searches for the tier sizes and savings. Returns false, which ends the search, if the user has
 * pressed Ctrl-C. */
static bool goes_on(const mp_progress *progress, void *data)
{
    (void)progress;
    (void)data;
    return !interrupt_asked();
}

static double hidden_share(const mp_copying *copying)
{
    return copying->copy_ticks ? (double)copying->hidden_ticks / (double)copying->copy_ticks : 0;
}

mp_status find_plan_offload(outcome *out, const mp_request *request, mp_error *err)
{
    const options *o = out->asked;
    mp_request asked = *request;
    asked.progress = goes_on;
    asked.budget_bytes = out->budget_bytes;
    const bool searches = !out->answer.stopped && o->search.time_limit <= 0 && (!o->talk.quiet || o->talk.json);
    return mp_tier_study_of(&asked, &out->answer, o->search.offsets, searches, &out->tiers, err);
}

static const char *worth_text(const outcome *out, int64_t ticks)
{
    return ticks ? seconds_text((double)ticks * out->workload->graph->tick_seconds) : "nothing";
}

/* Prints how much time would be saved by more memory, and by a faster link. Prints nothing if the plan takes no extra time. */
static void print_worth(const outcome *out)
{
    const mp_graph *graph = out->workload->graph;
    const char *tiers = "";
    if (!out->tiers.has_worth || out->answer.plan->ticks <= out->keep_all_ticks) return;
    for (size_t m = 1; m < graph->n_tiers; m++)
        if (out->workload->tier_bytes[m])
            tiers = mp_text("%s, on the %s %s", tiers, graph->tiers[m], worth_text(out, out->tiers.worth.tier_ticks[m]));
    screen_text(4,
                "  worth per step, by plans that the same short search finds then: 1 GiB more on the device %s%s; copies twice "
                "as fast %s",
                worth_text(out, out->tiers.worth.device_ticks), tiers, worth_text(out, out->tiers.worth.link_ticks));
}

static json_t *worth_json(const outcome *out)
{
    const mp_graph *graph = out->workload->graph;
    const double tick = graph->tick_seconds;
    if (!out->tiers.has_worth) return json_null();
    json_t *tiers = json_array();
    for (size_t m = 1; m < graph->n_tiers; m++)
        mp_json_append(&tiers, json_real((double)out->tiers.worth.tier_ticks[m] * tick));
    return json_pack("{s:s, s:f, s:o, s:f}", "by", "plans", "device_gib_seconds", (double)out->tiers.worth.device_ticks * tick,
                     "tier_gib_seconds", tiers, "half_copies_seconds", (double)out->tiers.worth.link_ticks * tick);
}

int tier_too_small(const outcome *out)
{
    return mp_tier_study_too_small(&out->tiers, out->workload->graph, out->workload->tier_bytes);
}

bool print_tier_refusal(const outcome *out)
{
    const int tier = tier_too_small(out);
    if (tier)
        screen_text(0, "It is proved that no plan in this budget has less than %s on the %s, which may have %s.",
                    mp_bytes_text(out->tiers.floor_bytes[tier]), out->workload->graph->tiers[tier],
                    mp_bytes_text(out->workload->tier_bytes[tier]));
    return tier;
}

void print_tier_enough(const outcome *out)
{
    for (size_t m = 1; m < out->workload->graph->n_tiers; m++)
        if (out->tiers.enough_bytes[m])
            screen_text(
                4, "  or the budget asked for, with %lld bytes on the %s instead of %lld%s",
                (long long)out->tiers.enough_bytes[m], out->workload->graph->tiers[m], (long long)out->workload->tier_bytes[m],
                out->tiers.floor_bytes[m] ? mp_text(" (no plan has less than %lld there)", (long long)out->tiers.floor_bytes[m])
                                          : "");
}

mp_status print_plan_offload(const outcome *out, const mp_plan *plan, mp_error *err)
{
    const mp_graph *graph = out->workload->graph;
    int64_t fates[MP_N_KINDS][MP_N_FATES];
    mp_copying copying;
    if (graph->n_tiers < 2) return MP_OK;
    MP_CHECK(mp_plan_fate_bytes(graph, plan, fates, err));
    MP_CHECK(mp_makespan_copying(graph, plan->steps, plan->n_steps, &copying, err));
    print_fates(fates);
    print_state(graph);
    if (!copying.copy_ticks) {
        screen_row("  copies: none in this plan");
        return MP_OK;
    }
    const double slowdown = slowdown_of(out->workload, &copying);
    screen_text(4, "  copies: %s out, %s back, %.0f %% of it beside computing%s", mp_bytes_text(copying.out_bytes),
                mp_bytes_text(copying.in_bytes), 100 * hidden_share(&copying),
                slowdown < 0 ? "" : mp_text(", which it slows down by at most %s", seconds_text(slowdown)));
    print_waits(out, plan, &copying);
    for (int m = 1; m < (int)graph->n_tiers; m++) {
        const int64_t budget = plan->tiers[m].budget_bytes, peak = plan->tiers[m].peak_bytes;
        const int64_t need = mp_plan_tier_need(graph, plan, m);
        screen_text(4, "  %-10s %11s at its peak%s%s%s", graph->tiers[m], mp_bytes_text(peak),
                    need > peak ? mp_text(", %s with gaps", mp_bytes_text(need)) : "",
                    budget < MP_NO_LIMIT ? mp_text(", of %s", mp_bytes_text(budget)) : "",
                    out->tiers.floor_bytes[m] > plan->tiers[m].static_bytes
                        ? mp_text("; no plan in this budget has less than %s there", mp_bytes_text(out->tiers.floor_bytes[m]))
                        : "");
    }
    print_worth(out);
    return MP_OK;
}

mp_status offload_json(const outcome *out, const mp_plan *plan, json_t **json, mp_error *err)
{
    const mp_graph *graph = out->workload->graph;
    mp_copying copying;
    json_t *tiers = NULL;
    if (graph->n_tiers < 2) return MP_OK;
    MP_CHECK(mp_makespan_copying(graph, plan->steps, plan->n_steps, &copying, err));
    const double slowdown = slowdown_of(out->workload, &copying);
    tiers = json_array();
    for (size_t m = 1; m < graph->n_tiers; m++) {
        const int64_t budget = out->workload->tier_bytes[m];
        mp_json_append(&tiers,
                       json_pack("{s:o, s:o, s:I, s:I, s:o}", "name", mp_json_text(graph->tiers[m]), "budget_bytes",
                                 mp_json_integer_if(budget, budget), "peak_bytes", (json_int_t)plan->tiers[m].peak_bytes,
                                 "floor_bytes", (json_int_t)out->tiers.floor_bytes[m], "smallest_feasible_bytes",
                                 mp_json_integer_if(out->tiers.enough_bytes[m], out->tiers.enough_bytes[m])));
    }
    mp_json_set(json, "offload",
                json_pack("{s:o, s:I, s:I, s:o, s:f, s:o, s:I, s:o}", "tiers", tiers, "bytes_out",
                          (json_int_t)copying.out_bytes, "bytes_in", (json_int_t)copying.in_bytes, "hidden_share",
                          mp_json_real_if(copying.copy_ticks, hidden_share(&copying)), "wait_seconds",
                          (double)copying.wait_ticks * graph->tick_seconds, "slowdown_seconds",
                          mp_json_real_if(slowdown >= 0, slowdown), "state_bytes", (json_int_t)state_away(graph), "worth",
                          worth_json(out)));
    return MP_OK;
}
