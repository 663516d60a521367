/* cmd_profile.c - the command profile: measures the time of each node of a training step on this machine, or the speed of
 * copies or of a network. */
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
#include "executor/program/program.h"
#include "executor/tiers/link.h"
#include "executor/workload/workload.h"
#include "formats/json/json.h"
#include "memplan/costs_measure.h"
#include "memplan/workloads/own_device.h"

enum { STEPS = 5 }; /* default of --steps; the first step is a warm-up and is not measured */

/* The state of the measurement, for the progress line and the time limit. */
typedef struct watch {
    /* start: time at which the measurement begins; end: its deadline, 0 if there is none; both in seconds of mp_clock_now */
    double start, end;
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

static bool look(size_t round, size_t n_rounds, const mp_train_progress *now, void *data)
{
    watch *w = data;
    const double clock = mp_clock_now();
    w->stopped |= interrupt_asked() || (w->end > 0 && clock > w->end && (round > 0 || now->step > 1));
    const bool is_due = log_is_due(&w->logs, clock - w->start), is_shown = w->shows && clock >= w->shown_at + 0.1;
    const char *text = is_due || is_shown ? mp_text("measuring  %.0f s  round %zu of %zu, step %lld of %lld", clock - w->start,
                                                    round + 1, n_rounds, (long long)now->step, (long long)now->n_steps)
                                          : NULL;
    if (is_due) complain("progress: %s", text);
    if (is_shown) {
        terminal_line(STDERR_FILENO, mp_text("%s  (Ctrl-C keeps what there is)", text));
        w->shown_at = clock;
        w->any = true;
    }
    interrupt_force(w->stopped ? NULL : LATE, 1 + (round > 0 || now->step > 1 ? (unsigned)now->seconds + 1 : 0));
    return !w->stopped;
}

/* Measures one round per algorithm. */
static mp_status measure(const options *o, const mp_workload *s, mp_measured_costs *out, mp_error *err)
{
    MP_OWNED_BY(mp_feed_free) mp_feed *feed = NULL;
    MP_OWNED_BY(mp_parameter_source_free) mp_parameter_source *source = NULL;
    MP_CLEARED_BY(watch_end)
    watch w = {.start = mp_clock_now(),
               .shown_at = -1,
               .logs = log_times_start(o),
               .shows = o->talk.shows_progress && terminal_rewrites(STDERR_FILENO)};
    const uint64_t seed = (uint64_t)o->search.seed;
    mp_costs_request request = {.program = s->program,
                                .optimizer = (mp_optimizer)mp_optimizer_find(o->model.optimizer),
                                .seed = seed,
                                .n_steps = o->training.steps > 1 ? o->training.steps : STEPS,
                                .progress = look,
                                .progress_data = &w};
    MP_CHECK(mp_parameter_source_open(s->program, s->file, seed, true, &source, err));
    MP_CHECK(mp_inputs_open_feed(s->program, NULL, 0, seed, &feed, err));
    request.feed = feed;
    request.parameters = source;
    if (o->search.time_limit > 0) w.end = w.start + o->search.time_limit;
    interrupt_catch(true, !w.shows);
    w.catches = true;
    interrupt_force(LATE, 1);
    return mp_costs_measure(&request, out, err);
}

static void print_measured(const mp_workload *s, const mp_measured_costs *p)
{
    print("%s, %s: a step takes %s with everything kept, the fastest of %zu.\n", s->title, s->graph->target,
          seconds_text(p->report.fastest_seconds), p->report.n_losses - 1);
    if (p->n_left_out)
        print("Stopped before all was measured: %zu more round%s would have compared other algorithms.\n", p->n_left_out,
              p->n_left_out == 1 ? "" : "s");
    if (p->n_choosing)
        print("%zu node%s can be computed in several ways, %zu in all: %s as they are, %s with the fastest of each.\n",
              p->n_choosing, p->n_choosing == 1 ? "" : "s", p->n_algorithms, seconds_text(p->own_seconds),
              seconds_text(p->fastest_seconds));
    print_profile(s->graph, &p->report);
}

static json_t *measured_json(const mp_workload *s, const mp_measured_costs *p)
{
    const mp_graph *g = s->graph;
    return json_pack("{s:o, s:s, s:f, s:I, s:I, s:I, s:f, s:f, s:o}", "model", mp_json_text(g->name), "target", g->target,
                     "step_seconds", p->report.fastest_seconds, "rounds_left_out", (json_int_t)p->n_left_out,
                     "nodes_with_algorithms", (json_int_t)p->n_choosing, "algorithms", (json_int_t)p->n_algorithms,
                     "own_seconds", p->own_seconds, "fastest_seconds", p->fastest_seconds, "operators",
                     profile_json(g, &p->report));
}

/* ---- links ---- */

static mp_status measure_links(const options *o, json_t **links, mp_error *err)
{
    const mp_backend *backend;
    mp_own_device device;
    mp_link_speed speed;
    MP_CHECK(mp_workload_device(&o->model, &backend, &device, err));
    MP_ENSURE(backend, err, MP_UNSUPPORTED, "profile link measures --device cpu or cuda only, not %s", o->model.device);
    MP_CHECK(backend->open(backend, err));
    for (size_t k = 0; k < o->output.links.n; k++) {
        const char *where = o->output.links.items[k], *folder = strcmp(where, "host") ? where : NULL;
        MP_ENSURE(backend->is_host || !folder, err, MP_UNSUPPORTED,
                  "%s: plans on a GPU copy to the host's memory only; use profile link host", where);
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
    if (o->output.out) return usage_error("profile link writes no file; omit -o");
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
    MP_ENSURE(backend && backend->is_host, err, MP_UNSUPPORTED, "profile network: collectives run on --device cpu, not %s",
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
    if (o->talk.json) return usage_error("profile network has no --json; write a file with -o");
    if (measure_network(o, &world, &is_first, &err) == MP_OK) return EXIT_DONE;
    const int rc = output_failed(&err);
    if (world && mp_communicator_size(world) > 1) world->end(world, rc);
    return rc;
}

/* Reads the word before the operands: link or network. The old options --link and --network count as this word. */
static int take_word(options *o)
{
    const char *word = o->n_operands ? o->operands[0] : "";
    const bool link = !strcmp(word, "link"), network = !strcmp(word, "network");
    size_t rest = o->n_operands - (link || network);
    if (link && !o->output.links.n) {
        if (!rest) return usage_error("profile link needs a place: a folder, or host for the host's memory");
        o->output.links = (mp_text_list){.n = rest, .items = o->operands + 1};
        rest = 0;
    }
    o->output.network |= network;
    if ((o->output.links.n > 0) + o->output.network + (rest > 0) > 1)
        return usage_error("profile measures a model, links or a network; start memplan once for each");
    return rest > 1 ? usage_error("profile measures one model; '%s' is another", o->operands[1]) : EXIT_DONE;
}

int cmd_profile(options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    MP_CLEARED_BY(mp_measured_costs_free) mp_measured_costs found = {0};
    if (!option_given(o, OPT_DEVICE)) o->model.device = "cpu";
    const int rc = take_word(o);
    if (rc) return rc;
    if (o->output.links.n) return profile_links(o);
    if (o->output.network) return profile_network(o);
    /* several processes are an error, and only rank 0 prints its message */
    if (launcher_rank() > 0 && launcher_ranks() > 1) return EXIT_DONE;
    if (launcher_ranks() > 1)
        return usage_error(
            "the launcher has started %d processes, which would disturb each other's measurements; start memplan without the "
            "launcher, or measure the network with profile network",
            launcher_ranks());
    if (!o->n_operands) return usage_error("profile needs a model, or the word link or network");
    if (o->model.reduce || o->training.timeout > 0) return usage_error("--reduce and --timeout are for profile network");
    if (!o->output.out) return usage_error("profile needs a file to write: -o costs.json");
    if (o->talk.json && !strcmp(o->output.out, "-"))
        return usage_error("--json and -o - both write to standard output; omit one of them");
    mp_status st = load_workload(o->operands[0], o, &s, &err);
    if (st == MP_OK && !s.program) st = MP_FAIL(&err, MP_INVALID, "profile runs a model on a backend: --device cpu");
    if (st == MP_OK && s.program->bindings->loss < 0)
        st = MP_FAIL(&err, MP_INVALID, "profile measures a training step, which needs a loss; omit --loss none");
    if (st != MP_OK) return input_failed(&err);
    if (measure(o, &s, &found, &err) != MP_OK || mp_costs_write(o->output.out, s.graph, found.costs, &err) != MP_OK)
        return output_failed(&err);
    if (!strcmp(o->output.out, "-")) return EXIT_DONE;
    if (o->talk.json) return print_json("profile", measured_json(&s, &found));
    print_measured(&s, &found);
    return EXIT_DONE;
}
