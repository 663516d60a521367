/* cmd_profile.c - the command profile: measures the time of each node of a training step on this machine, or the speed of
 * copies or of a network. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/messages/interrupt.h"
#include "cli/messages/launcher.h"
#include "cli/messages/messages.h"
#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/messages/terminal.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/link_report.h"
#include "cli/reports/progress.h"
#include "cli/reports/report.h"
#include "cli/reports/train_report.h"
#include "estimator/base/clock.h"
#include "executor/run/program.h"
#include "executor/run/program_nodes.h"
#include "executor/tiers/link_of_device.h"
#include "executor/tiers/link_of_host.h"
#include "executor/workload/own_device.h"
#include "executor/workload/workload.h"
#include "formats/json/json.h"
#include "memplan/costs_json.h"

enum { STEPS = 5 }; /* default of --steps; the first step is a warm-up and is not measured */

/* Allocates the costs of all nodes, owned by a pool. */
static mp_status new_costs(const mp_program *program, mp_pool *pool, mp_node_cost **out, mp_error *err)
{
    const mp_graph *g = program->graph;
    mp_node_cost *costs = *out = mp_pool_alloc(pool, g->n_nodes, sizeof *costs);
    for (size_t i = 0; costs && i < g->n_nodes; i++) {
        const mp_program_node *node = mp_program_node_at(program, (int)i);
        mp_algorithm_cost *list = costs[i].algorithms = mp_pool_alloc(pool, node->n_algorithms, sizeof *list);
        costs[i].n_algorithms = list ? node->n_algorithms : 0;
        for (size_t k = 0; k < costs[i].n_algorithms; k++) {
            const mp_alternative *alternative = &g->nodes[i].alternatives[k];
            list[k] = (mp_algorithm_cost){.name = alternative->algorithm,
                                          .workspace_bytes = alternative->workspace_bytes,
                                          .is_deterministic = node->algorithms[k].is_deterministic};
        }
    }
    return mp_pool_failed(pool) ? MP_FAIL(err, MP_NOMEM, "the costs of %zu nodes", g->n_nodes) : MP_OK;
}

/* The state of the measurement, for the progress line and the time limit. */
typedef struct watch {
    size_t round, n_rounds;
    double start, end; /* begin and deadline, in seconds of mp_clock_now; end 0: no deadline */
    double shown_at;
    log_times logs;
    bool shows, any, stopped;
    bool catches; /* true: the process catches signals, which then request a stop */
} watch;

static void watch_end(watch *w)
{
    if (w->any) terminal_clear(STDERR_FILENO);
    if (w->catches) interrupt_release();
}

/* The message for a step that does not end soon enough after a signal. The process waits 1 s if there is no result yet, and
 * otherwise the time of the last step plus 2 s. */
#define LATE "memplan: stopped in the middle of a step that did not end; nothing is written\n"

static bool look(const mp_train_progress *now, void *data)
{
    watch *w = data;
    const double clock = mp_clock_now();
    w->stopped |= interrupt_asked() || (w->end > 0 && clock > w->end && (w->round > 0 || now->step > 1));
    const bool is_due = log_is_due(&w->logs, clock - w->start), is_shown = w->shows && clock >= w->shown_at + 0.1;
    const char *text = is_due || is_shown ? mp_text("measuring  %.0f s  round %zu of %zu, step %lld of %lld", clock - w->start,
                                                    w->round + 1, w->n_rounds, (long long)now->step, (long long)now->n_steps)
                                          : NULL;
    if (is_due) complain("progress: %s", text);
    if (is_shown) {
        terminal_line(STDERR_FILENO, mp_text("%s  (Ctrl-C keeps what there is)", text));
        w->shown_at = clock;
        w->any = true;
    }
    interrupt_force(w->stopped ? NULL : LATE, 1 + (w->round > 0 || now->step > 1 ? (unsigned)now->seconds + 1 : 0));
    return !w->stopped;
}

/* Trains with everything kept, and records the seconds of each node. Each node runs its alternative number `round`; a node with
 * fewer alternatives runs its last. *measured becomes true if at least one step was measured after the warm-up. */
static mp_status measure_round(mp_train_request *request, size_t round, mp_node_cost *costs, train_outcome *t, bool *measured,
                               mp_error *err)
{
    const mp_graph *g = t->workload.graph;
    MP_CLEARED_BY(mp_report_free) mp_report report = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    MP_OWNED int *alternatives = mp_alloc(g->n_nodes, sizeof *alternatives);
    MP_ENSURE(alternatives, err, MP_NOMEM, "%zu steps", g->n_nodes);
    for (size_t i = 0; i < g->n_nodes; i++)
        if (round && costs[i].n_algorithms)
            alternatives[i] = (int)(round < costs[i].n_algorithms ? round : costs[i].n_algorithms - 1);
    MP_CHECK(train_keep_all(g, alternatives, &plan, err));
    request->plan = plan;
    MP_CHECK(mp_train(request, &report, err));
    /* true if at least one step follows the first step, which is a warm-up and is not measured */
    *measured = report.n_losses > 1;
    if (!*measured) return MP_OK;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const double seconds = report.node_seconds[i];
        if (!round) costs[i].seconds = seconds;
        if (round < costs[i].n_algorithms) costs[i].algorithms[round].seconds = seconds;
    }
    if (!round) { /* in round 0 the backend uses its own choice of algorithms, and the printed report is about this round */
        t->after = report;
        report = (mp_report){0};
    }
    return MP_OK;
}

/* Keeps only the first `n` algorithms of each node in the costs, because no other algorithm was measured. */
static void keep_algorithms(mp_node_cost *costs, size_t n_nodes, size_t n)
{
    for (size_t i = 0; i < n_nodes; i++)
        if (costs[i].n_algorithms > n) costs[i].n_algorithms = n;
}

/* Measures one round per algorithm. *left_out: number of rounds for which no time was left. */
static mp_status measure(const options *o, train_outcome *t, mp_pool *pool, mp_node_cost **costs, size_t *left_out,
                         mp_error *err)
{
    MP_OWNED_BY(mp_feed_free) mp_feed *feed = NULL;
    MP_OWNED_BY(mp_parameter_source_free) mp_parameter_source *source = NULL;
    size_t n_rounds = 1;
    MP_CLEARED_BY(watch_end)
    watch w = {.start = mp_clock_now(),
               .shown_at = -1,
               .logs = log_times_start(o),
               .shows = o->talk.shows_progress && terminal_rewrites(STDERR_FILENO)};
    mp_hyper hyper = mp_hyper_default((mp_optimizer)mp_optimizer_find(o->model.optimizer));
    mp_train_request request = {.program = t->workload.program,
                                .execution = {.hyper = hyper, .seed = (uint64_t)o->search.seed, .profile = true},
                                .n_steps = o->training.steps > 1 ? o->training.steps : STEPS};
    MP_CHECK(mp_program_list_algorithms(t->workload.program, err));
    MP_CHECK(new_costs(t->workload.program, pool, costs, err));
    MP_CHECK(mp_parameter_source_open(t->workload.program, t->workload.file, (uint64_t)o->search.seed, true, &source, err));
    MP_CHECK(mp_inputs_open_feed(t->workload.program, NULL, 0, (uint64_t)o->search.seed, &feed, err));
    request.feed = feed;
    request.parameters = source;
    request.progress = look;
    request.progress_data = &w;
    if (o->search.time_limit > 0) w.end = w.start + o->search.time_limit;
    for (size_t i = 0; i < t->workload.graph->n_nodes; i++)
        if ((*costs)[i].n_algorithms > n_rounds) n_rounds = (*costs)[i].n_algorithms;
    w.n_rounds = n_rounds;
    interrupt_catch(true, !w.shows);
    w.catches = true;
    interrupt_force(LATE, 1);
    for (; w.round < n_rounds && !w.stopped; w.round++) {
        bool measured = false;
        MP_CHECK(measure_round(&request, w.round, *costs, t, &measured, err));
        if (!measured) break;
    }
    MP_ENSURE(w.round > 0, err, MP_INFEASIBLE,
              "stopped before the second step; the first only warms up, so nothing is measured");
    keep_algorithms(*costs, t->workload.graph->n_nodes, w.round);
    *left_out = n_rounds - w.round;
    return MP_OK;
}

/* The seconds that a training step saves if each node uses its fastest algorithm. */
typedef struct choice {
    size_t n_nodes, n_algorithms; /* number of nodes that have several algorithms; sum of the numbers of their algorithms */
    /* seconds of these nodes in a step: with the backend's own choice of algorithms; with the fastest algorithm of each node */
    double own, fastest;
} choice;

static choice choice_of(const mp_node_cost *costs, size_t n)
{
    choice c = {0};
    for (size_t i = 0; i < n; i++) {
        if (!costs[i].n_algorithms) continue;
        double least = costs[i].seconds;
        c.n_nodes++;
        c.n_algorithms += costs[i].n_algorithms;
        for (size_t k = 0; k < costs[i].n_algorithms; k++)
            if (costs[i].algorithms[k].seconds < least) least = costs[i].algorithms[k].seconds;
        c.own += costs[i].seconds;
        c.fastest += least;
    }
    return c;
}

static void print_measured(const train_outcome *t, const choice *c, size_t left_out)
{
    print("%s, %s: a step takes %s with everything kept, the fastest of %zu.\n", t->workload.title, t->workload.graph->target,
          seconds_text(t->after.fastest_seconds), t->after.n_losses - 1);
    if (left_out)
        print("Stopped before all was measured: %zu more round%s would have compared other algorithms.\n", left_out,
              left_out == 1 ? "" : "s");
    if (c->n_nodes)
        print("%zu node%s can be computed in several ways, %zu in all: %s as they are, %s with the fastest of each.\n",
              c->n_nodes, c->n_nodes == 1 ? "" : "s", c->n_algorithms, seconds_text(c->own), seconds_text(c->fastest));
    print_profile(t->workload.graph, &t->after);
}

static json_t *measured_json(const train_outcome *t, const choice *c, size_t left_out)
{
    const mp_graph *g = t->workload.graph;
    return json_pack("{s:o, s:s, s:f, s:I, s:I, s:I, s:f, s:f, s:o}", "model", mp_json_text(g->name), "target", g->target,
                     "step_seconds", t->after.fastest_seconds, "rounds_left_out", (json_int_t)left_out, "nodes_with_algorithms",
                     (json_int_t)c->n_nodes, "algorithms", (json_int_t)c->n_algorithms, "own_seconds", c->own,
                     "fastest_seconds", c->fastest, "operators", profile_json(g, &t->after));
}

/* ---- links ---- */

static mp_status measure_links(const options *o, json_t **links, mp_error *err)
{
    const mp_backend *backend;
    mp_own_device device;
    mp_link_speed speed;
    MP_CHECK(mp_workload_device(&o->model, &backend, &device, err));
    MP_ENSURE(backend, err, MP_UNSUPPORTED, "--link: profile can measure --device cpu or cuda only, not %s", o->model.device);
    MP_CHECK(backend->open(backend, err));
    for (size_t k = 0; k < o->output.links.n; k++) {
        const char *where = o->output.links.items[k], *folder = strcmp(where, "host") ? where : NULL;
        MP_ENSURE(backend->is_host || !folder, err, MP_UNSUPPORTED,
                  "--link %s: plans on a GPU copy to the host's memory only; use --link host", where);
        if (backend->is_host)
            MP_CHECK(mp_link_measure_host(folder, &(mp_copy_queue_options){0}, &speed, err));
        else
            MP_CHECK(mp_link_measure_device(backend, &speed, err));
        if (o->talk.json)
            mp_json_append(links, link_json(where, &speed));
        else
            print_link(where, &speed);
    }
    return MP_OK;
}

static int profile_links(const options *o)
{
    mp_error err = {0};
    MP_OWNED_BY(json_decref) json_t *links = json_array();
    if (o->n_operands || o->output.out)
        return usage_error("profile --link measures no model and writes no costs; omit the model and -o");
    if (measure_links(o, &links, &err) != MP_OK) return output_failed(&err);
    if (!o->talk.json) return EXIT_DONE;
    return print_json("links", json_pack("{s:s, s:O}", "device", o->model.device, "links", links));
}

static mp_status measure_network(const options *o, mp_communicator **world, bool *is_first, mp_error *err)
{
    const mp_backend *backend;
    mp_own_device device;
    mp_network_speed speed;
    const bool fast = o->model.reduce && !strcmp(o->model.reduce, "fast");
    MP_CHECK(mp_communicator_open("mpi", world, err));
    *is_first = !mp_communicator_rank(*world);
    messages_as_rank(mp_communicator_rank(*world));
    MP_CHECK(mp_workload_device(&o->model, &backend, &device, err));
    MP_ENSURE(backend && backend->is_host, err, MP_UNSUPPORTED, "--network: collectives run on --device cpu, not %s",
              o->model.device);
    MP_CHECK(mp_network_measure(*world, backend, fast, o->training.timeout > 0 ? o->training.timeout : 60, &speed, err));
    if (*is_first && !o->talk.quiet) print_network(&speed, fast);
    return *is_first && o->output.out ? write_network(o->output.out, &speed, mp_communicator_name(*world), fast, err) : MP_OK;
}

static int profile_network(const options *o)
{
    mp_error err = {0};
    MP_OWNED_BY(mp_communicator_close) mp_communicator *world = NULL;
    bool is_first = true;
    if (o->n_operands || o->talk.json)
        return usage_error("profile --network measures no model and has no --json; omit them, and write a file with -o");
    if (measure_network(o, &world, &is_first, &err) == MP_OK) return EXIT_DONE;
    const int rc = output_failed(&err);
    if (world && mp_communicator_size(world) > 1) world->end(world, rc);
    return rc;
}

int cmd_profile(options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(train_outcome_free) train_outcome t = {0};
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_node_cost *costs = NULL;
    size_t left_out = 0;
    if (!option_given(o, OPT_DEVICE)) o->model.device = "cpu";
    if (o->output.links.n) return profile_links(o);
    if (o->output.network) return profile_network(o);
    /* several processes are an error, and only rank 0 prints its message */
    if (launcher_rank() > 0 && launcher_ranks() > 1) return EXIT_DONE;
    if (launcher_ranks() > 1)
        return usage_error(
            "the launcher has started %d processes, which would disturb each other's measurements; start memplan without the "
            "launcher, or measure the network with --network",
            launcher_ranks());
    if (!o->n_operands) return usage_error("profile needs a model, --link WHERE or --network");
    if (o->model.reduce || o->training.timeout > 0) return usage_error("--reduce and --timeout are for profile --network");
    if (!o->output.out) return usage_error("profile needs a file to write: -o costs.json");
    if (o->talk.json && !strcmp(o->output.out, "-"))
        return usage_error("--json and -o - both write to standard output; omit one of them");
    mp_status st = load_workload(o->operands[0], o, &t.workload, &err);
    if (st == MP_OK && !t.workload.program) st = MP_FAIL(&err, MP_INVALID, "profile runs a model on a backend: --device cpu");
    if (st == MP_OK && t.workload.program->bindings->loss < 0)
        st = MP_FAIL(&err, MP_INVALID, "profile measures a training step, which needs a loss; omit --loss none");
    if (st != MP_OK) return input_failed(&err);
    if (measure(o, &t, pool, &costs, &left_out, &err) != MP_OK ||
        mp_costs_write(o->output.out, t.workload.graph, costs, &err) != MP_OK)
        return output_failed(&err);
    if (!strcmp(o->output.out, "-")) return EXIT_DONE;
    const choice c = choice_of(costs, t.workload.graph->n_nodes);
    if (o->talk.json) return print_json("profile", measured_json(&t, &c, left_out));
    print_measured(&t, &c, left_out);
    return EXIT_DONE;
}
