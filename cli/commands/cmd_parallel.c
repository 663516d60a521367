/* cmd_parallel.c - the best ways to split a network over many devices, and why every other one is not among them. */
#include <stdio.h>
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/commands.h"
#include "cli/reports/budget_bytes.h"
#include "cli/reports/plan.h"
#include "cli/reports/report.h"
#include "cli/subject/subject.h"
#include "formats/json/json.h"
#include "memplan/ranks/meshes.h"

/* ---- the question ---- */

enum { SAMPLES_PER_DEVICE = 4, /* of a step, where no --global-batch is given */ MESH_COLUMNS = 28 };

typedef struct question {
    const options *asked;
    mp_meshes_request request;
    mp_link link; /* to the host's memory */
    char name[128], within[MP_TEXT_MAX];
} question;

/* Builds one rank of a split, before gradients are summed: they stay from one micro-batch to the next. */
static mp_status graph_of(void *data, const mp_mesh *mesh, int64_t micro_batch, mp_graph **out, int64_t *sent_bytes,
                          mp_error *err)
{
    question *q = data;
    options o = *q->asked;
    MP_CLEARED_BY(subject_free) subject s = {0};
    char split[64];
    const long long ep = mesh->size[MP_DIM_EP];
    snprintf(split, sizeof split, "dp=%lld,ep=%lld,tp=%lld%s%s", ep, ep, (long long)mesh->size[MP_DIM_TP],
             mesh->sequence ? "" : ",sp=0", mesh->data ? ",data=1" : "");
    o.model.mesh = split;
    o.model.batch = micro_batch;
    o.model.accumulate = 2;
    o.model.leaves_sums = true;
    o.model.shares_all = mesh->zero == 3;
    o.model.offload = o.model.link = (text_list){0};
    o.model.offload_state = false;
    o.model.pipeline = NULL;
    o.model.chunks = 0;
    MP_CHECK(subject_load(o.operands[0], &o, &s, err));
    snprintf(q->name, sizeof q->name, "%s", s.graph->name && *s.graph->name ? s.graph->name : s.path);
    MP_ENSURE(!mesh->data || s.split.part_bytes < s.split.whole_bytes, err, MP_UNSUPPORTED,
              "no weight of this network is worth to be split while the batch is");
    *sent_bytes = s.traffic.sent_bytes;
    *out = subject_take_graph(&s);
    return MP_OK;
}

/* Reads what may be copied to the host. */
static mp_status read_host(question *q, const own_device *device, mp_error *err)
{
    mp_host *host = &q->request.host;
    bool has_host;
    MP_CHECK(subject_host(q->asked, device, &has_host, &q->link, &host->bytes, err));
    host->link = has_host ? &q->link : NULL;
    host->takes_state = q->asked->model.offload_state;
    return MP_OK;
}

/* Reads which dimensions are given; what --mesh does not name is free. */
static mp_status read_fixed(const options *o, mp_meshes_request *r, mp_error *err)
{
    if (!o->model.mesh) return MP_OK;
    MP_CHECK(mp_mesh_read_some(o->model.mesh, &r->fixed, err));
    r->ranks.mesh.sequence = r->fixed.sequence;
    return MP_OK;
}

static int settle(question *q)
{
    const options *o = q->asked;
    mp_meshes_request *r = &q->request;
    mp_error err = {0};
    device_room room;
    budget b = {.kind = BUDGET_DEVICE};
    const mp_backend *backend;
    own_device device;
    const char *why = "is a share, and parallel needs a number of bytes like 70GiB";
    if (o->search.memory && (!budget_parse(o->search.memory, &b, &why) || (b.kind != BUDGET_BYTES && b.kind != BUDGET_DEVICE)))
        return usage_error("--memory: '%s' %s", o->search.memory, why);
    if (!o->search.devices) return usage_error("parallel needs --devices N: how many there are");
    if (room_of_options(o, &room, &err) != MP_OK) return input_failed(&err);
    r->memory_bytes = b.kind == BUDGET_DEVICE ? room_bytes(&room) : b.bytes;
    snprintf(q->within, sizeof q->within, "%s", mp_bytes_text(r->memory_bytes));
    mp_status st = subject_device(&o->model, &backend, &device, &err);
    const char *network = o->model.network ? o->model.network : st == MP_OK ? mp_network_of_device(device.profile.name) : "";
    if (st == MP_OK) st = read_host(q, &device, &err);
    if (st == MP_OK) st = subject_network(network, &r->ranks.network, &err);
    r->ranks.mesh.sequence = true;
    if (st == MP_OK) st = read_fixed(o, r, &err);
    if (st != MP_OK) return input_failed(&err);
    r->ranks.bucket_bytes = o->model.bucket;
    r->ranks.rules = (mp_rules)mp_rules_find(o->model.rules);
    r->devices = o->search.devices;
    r->global_batch = o->search.global_batch ? o->search.global_batch : SAMPLES_PER_DEVICE * r->devices;
    r->micro_batch = o->search.micro_batch;
    r->is_scheduled = o->model.pipeline != NULL;
    if (r->is_scheduled) r->schedule = (mp_schedule)mp_schedule_find(o->model.pipeline);
    r->n_chunks = r->is_scheduled && r->schedule == MP_SCHEDULE_INTERLEAVED ? o->model.chunks ? o->model.chunks : 2 : 1;
    r->shares_apart = o->model.amp && r->ranks.rules == MP_RULES_PYTORCH;
    r->graph = graph_of;
    r->data = q;
    return EXIT_DONE;
}

/* ---- the answer as JSON ---- */

static json_t *mesh_json(const mp_mesh *m)
{
    json_t *json = json_object();
    for (int d = 0; d < MP_N_DIMS; d++) mp_json_set(&json, mp_dim_name((mp_dim)d), json_integer((json_int_t)m->size[d]));
    mp_json_set(&json, "zero", json_integer(m->zero));
    mp_json_set(&json, "data", json_integer(m->data));
    return json;
}

static json_t *stage_json(const mp_stage *s, bool has_host)
{
    json_t *json = json_pack("{s:i, s:i, s:I, s:{s:I, s:I, s:I, s:I, s:I}, s:I, s:I, s:I, s:f, s:f, s:f}", "first_block",
                             s->begin, "blocks", s->end - s->begin, "in_flight", (json_int_t)s->in_flight, "memory", "weights",
                             (json_int_t)s->parameter_bytes, "gradients", (json_int_t)s->gradient_bytes, "optimizer",
                             (json_int_t)s->state_bytes, "activations", (json_int_t)s->activation_bytes, "buffers",
                             (json_int_t)s->buffer_bytes, "peak_bytes", (json_int_t)s->peak_bytes, "recomputed_bytes",
                             (json_int_t)s->recomputed_bytes, "sent_bytes", (json_int_t)s->sent_bytes, "forward_seconds",
                             s->forward_seconds, "backward_seconds", s->backward_seconds, "extra_seconds", s->extra_seconds);
    if (!has_host) return json;
    mp_json_set(&json, "moved_bytes", json_integer((json_int_t)s->moved_bytes));
    mp_json_set(&json, "moved_state_bytes", json_integer((json_int_t)s->moved_state_bytes));
    mp_json_set(&json, "host_bytes", json_integer((json_int_t)s->host_bytes));
    mp_json_set(&json, "copy_seconds", json_real(s->copy_seconds));
    return json;
}

static json_t *choice_json(const mp_mesh_choice *c, bool has_host)
{
    json_t *json =
        json_pack("{s:o, s:I, s:I, s:s, s:I, s:s, s:I, s:f}", "mesh", mesh_json(&c->mesh), "micro_batch",
                  (json_int_t)c->micro_batch, "micro_batches", (json_int_t)c->n_micro_batches, "schedule",
                  mp_schedule_name(c->schedule), "chunks", (json_int_t)c->n_chunks, "reason", mp_verdict_name(c->verdict),
                  "floor_bytes", (json_int_t)c->floor_bytes, "bound_seconds", c->bound_seconds);
    const bool is_played = c->verdict <= MP_VERDICT_SLOWER;
    mp_json_set(&json, "seconds", mp_json_real_if(is_played, c->seconds));
    mp_json_set(&json, "peak_bytes", mp_json_integer_if(c->stages != NULL, c->peak_bytes));
    if (c->verdict != MP_VERDICT_BEST) return json;
    json_t *stages = json_array();
    mp_json_set(&json, "bubble_seconds", json_real(c->bubble_seconds));
    mp_json_set(&json, "exposed_seconds", json_real(c->exposed_seconds));
    for (size_t k = 0; k < c->n_stages; k++) mp_json_append(&stages, stage_json(&c->stages[k], has_host));
    mp_json_set(&json, "stages", stages);
    return json;
}

static json_t *parallel_json(const question *q, const mp_meshes *found)
{
    json_t *best = json_array(), *others = json_array();
    for (size_t k = 0; k < found->n; k++)
        mp_json_append(k < found->n_best ? &best : &others, choice_json(&found->choices[k], q->request.host.link));
    return json_pack("{s:o, s:I, s:I, s:I, s:s, s:o, s:o}", "model", mp_json_text(q->name), "devices",
                     (json_int_t)q->request.devices, "memory_bytes", (json_int_t)q->request.memory_bytes, "global_batch",
                     (json_int_t)q->request.global_batch, "network",
                     mp_text("%s+%s", q->request.ranks.network.inside.name, q->request.ranks.network.across.name), "best", best,
                     "set_aside", others);
}

/* ---- the answer on a screen ---- */

/* Returns the mesh with its schedule, unless that is the usual one; with several chunks, how many. */
static const char *named(const mp_mesh_choice *c)
{
    if (c->schedule == MP_SCHEDULE_1F1B) return mp_text("%s", mp_mesh_write(&c->mesh).text);
    if (c->n_chunks > 1) return mp_text("%s interleaved %lld", mp_mesh_write(&c->mesh).text, (long long)c->n_chunks);
    return mp_text("%s %s", mp_mesh_write(&c->mesh).text, mp_schedule_name(c->schedule));
}

/* Prints a row; a long name has a line to itself. */
static void print_choice(const mp_mesh_choice *c)
{
    const char *name = named(c);
    const bool is_long = strlen(name) > MESH_COLUMNS;
    if (is_long) screen_row("  %s", name);
    screen_row("  %-*s %3lld x %-4lld %8s %10s %8s %8s", MESH_COLUMNS, is_long ? "" : name, (long long)c->micro_batch,
               (long long)c->n_micro_batches, seconds_text(c->seconds), mp_bytes_text(c->peak_bytes),
               seconds_text(c->bubble_seconds), seconds_text(c->exposed_seconds));
}

/* Returns the seconds in which a step recomputes, in the stage where that takes most. */
static double recomputing(const mp_mesh_choice *c)
{
    double most = 0;
    for (size_t k = 0; k < c->n_stages; k++)
        if (c->stages[k].extra_seconds > most) most = c->stages[k].extra_seconds;
    return most * (double)c->n_micro_batches;
}

/* Says what takes the second longer than the first, and what less. */
static void print_runner_up(const mp_mesh_choice *first, const mp_mesh_choice *second)
{
    enum { KINDS = 4 };
    static const char *const what[KINDS] = {"recomputes", "waits for other stages", "waits for the network", "computes"};
    const double of_first[] = {recomputing(first), first->bubble_seconds, first->exposed_seconds},
                 of_second[] = {recomputing(second), second->bubble_seconds, second->exposed_seconds};
    const double longer = second->seconds - first->seconds;
    double a = first->seconds, b = second->seconds;
    char reasons[256] = "";
    for (int k = 0; k < KINDS; k++) {
        const double x = k < KINDS - 1 ? of_first[k] : a, y = k < KINDS - 1 ? of_second[k] : b;
        a -= x;
        b -= y;
        const size_t used = strlen(reasons);
        const double more = y > x ? y - x : x - y;
        if (more > longer / 10)
            snprintf(reasons + used, sizeof reasons - used, "%s %s %s %s", used ? "," : ":", what[k], seconds_text(more),
                     y > x ? "more" : "less");
    }
    if (*reasons) screen_text(2, "\nThe second takes %s longer%s.", seconds_text(longer), reasons);
}

/* Prints what each stage has on the host. */
static void print_host(const mp_mesh_choice *c)
{
    screen_row("  %-5s %10s %10s %21s %10s", "stage", "on host", "state", "of a micro-batch", "copies");
    for (size_t k = 0; k < c->n_stages; k++) {
        const mp_stage *s = &c->stages[k];
        screen_row("  %-5zu %10s %10s %21s %10s", k, mp_bytes_text(s->host_bytes), mp_bytes_text(s->moved_state_bytes),
                   mp_bytes_text(s->moved_bytes), seconds_text(s->copy_seconds));
    }
    screen_text(2, "copies: what a step takes longer for them; the rest of them is hidden behind compute.");
}

static void print_stages(const mp_mesh_choice *c, bool has_host)
{
    const mp_stage *full = c->stages;
    screen_row("  %-5s %6s %6s %10s %10s %10s %11s %10s", "stage", "blocks", "flight", "weights", "gradients", "optimizer",
               "activations", "peak");
    for (size_t k = 0; k < c->n_stages; k++) {
        const mp_stage *s = &c->stages[k];
        screen_row("  %-5zu %6d %6lld %10s %10s %10s %11s %10s", k, s->end - s->begin, (long long)s->in_flight,
                   mp_bytes_text(s->parameter_bytes), mp_bytes_text(s->gradient_bytes), mp_bytes_text(s->state_bytes),
                   mp_bytes_text(s->activation_bytes), mp_bytes_text(s->peak_bytes));
        if (s->peak_bytes > full->peak_bytes) full = s;
    }
    screen_text(2, "flight: micro-batches that a stage holds at once. Recomputation takes %s of a step where it takes most.",
                seconds_text(recomputing(c)));
    screen_text(2, "%s of the largest peak are activations, %s buffers; that stage sends %s in a step.",
                mp_bytes_text(full->activation_bytes), mp_bytes_text(full->buffer_bytes), mp_bytes_text(full->sent_bytes));
    if (has_host) print_host(c);
}

/* Says in one sentence why a mesh is where it is. */
static const char *reason_text(const mp_mesh_choice *c, const mp_mesh_choice *best, const char *within)
{
    switch (c->verdict) {
    case MP_VERDICT_FLOOR:
        return mp_text("needs at least %s of %s, however it recomputes", mp_bytes_text(c->floor_bytes), within);
    case MP_VERDICT_OVER_MEMORY:
        return mp_text("holds %s of %s with all that can be recomputed", mp_bytes_text(c->peak_bytes), within);
    case MP_VERDICT_BOUND:
        return mp_text("takes at least %s, and the best takes %s", seconds_text(c->bound_seconds), seconds_text(best->seconds));
    default:
        return mp_text("takes %s: waits %s for other stages, %s for the network, recomputes %s", seconds_text(c->seconds),
                       seconds_text(c->bubble_seconds), seconds_text(c->exposed_seconds), seconds_text(recomputing(c)));
    }
}

/* Prints how many meshes each reason has set aside, with the one that came nearest. */
static void print_set_aside(const mp_meshes *found, const char *within)
{
    static const char *const titles[] = {[MP_VERDICT_SLOWER] = "slower",
                                         [MP_VERDICT_BOUND] = "cannot be faster",
                                         [MP_VERDICT_FLOOR] = "cannot fit",
                                         [MP_VERDICT_OVER_MEMORY] = "found not to fit"};
    for (int v = MP_VERDICT_SLOWER; v < MP_N_VERDICTS; v++) {
        const mp_mesh_choice *near = NULL;
        size_t n = 0;
        for (size_t k = 0; k < found->n; k++) {
            const mp_mesh_choice *c = &found->choices[k];
            if ((int)c->verdict != v) continue;
            n++;
            if (!near || (v == MP_VERDICT_FLOOR && c->floor_bytes < near->floor_bytes) ||
                (v == MP_VERDICT_OVER_MEMORY && c->peak_bytes < near->peak_bytes))
                near = c;
        }
        if (near)
            screen_text(4, "  %zu %s; the nearest, %s with %lld x %lld, %s.", n, titles[v], named(near),
                        (long long)near->micro_batch, (long long)near->n_micro_batches,
                        reason_text(near, found->choices, within));
    }
}

static void print_verdict(const question *q, const mp_meshes *found)
{
    const mp_mesh_choice *best = found->choices;
    if (found->n_best)
        screen_verdict(q->asked->talk.color, SCREEN_GOOD, "%s on %s devices of %s: %s a step, %s, of %s samples.", q->name,
                       count_text(q->request.devices), q->within, seconds_text(best->seconds), named(best),
                       count_text(q->request.global_batch));
    else
        screen_verdict(q->asked->talk.color, SCREEN_BAD, "%s on %s devices of %s: no mesh fits.", q->name,
                       count_text(q->request.devices), q->within);
}

/* Prints the choices of one mesh, the best micro-batch and schedule first. */
static int explain(const question *q, const mp_meshes *found)
{
    mp_error err = {0};
    mp_mesh mesh;
    const mp_mesh_choice *shown = NULL;
    if (mp_mesh_read(q->asked->search.explain, &mesh, &err) != MP_OK) return input_failed(&err);
    for (size_t k = 0; k < found->n && !shown; k++) {
        const mp_mesh_choice *c = &found->choices[k];
        if (!memcmp(c->mesh.size, mesh.size, sizeof mesh.size) && c->mesh.zero == mesh.zero && c->mesh.data == mesh.data)
            shown = c;
    }
    if (!shown)
        return usage_error("--explain: '%s' is no mesh of %s devices that was looked at", q->asked->search.explain,
                           count_text(q->request.devices));
    screen_text(2, "%s with %lld x %lld: %s.", mp_mesh_write(&mesh).text, (long long)shown->micro_batch,
                (long long)shown->n_micro_batches, reason_text(shown, found->choices, q->within));
    if (shown->stages) print_stages(shown, q->request.host.link);
    return EXIT_DONE;
}

static int print_meshes(const question *q, const mp_meshes *found)
{
    print_verdict(q, found);
    if (q->asked->talk.quiet) return EXIT_DONE;
    putchar('\n');
    if (q->asked->search.explain) return explain(q, found);
    if (found->n_best) {
        screen_row("  %-*s %-10s %8s %10s %8s %8s", MESH_COLUMNS, "mesh", "micro-b.", "time", "peak", "bubble", "network");
        for (size_t k = 0; k < found->n_best; k++) print_choice(&found->choices[k]);
        if (found->n_best > 1) print_runner_up(&found->choices[0], &found->choices[1]);
        puts("\nStages of the first:");
        print_stages(found->choices, q->request.host.link);
    }
    screen_text(0, "\nOf %zu meshes, micro-batches and schedules:", found->n);
    print_set_aside(found, q->within);
    putchar('\n');
    print_verdict(q, found);
    return EXIT_DONE;
}

int cmd_parallel(options *o)
{
    mp_error err = {0};
    question q = {.asked = o};
    MP_OWNED_BY(mp_meshes_free) mp_meshes *found = NULL;
    int rc = settle(&q);
    if (rc) return rc;
    if (subject_is_graph(o->operands[0]))
        return usage_error("%s: parallel needs a model, and this is a training graph already", o->operands[0]);
    if (mp_meshes_search(&q.request, &found, &err) != MP_OK) return input_failed(&err);
    rc = o->talk.json ? print_json("parallel", parallel_json(&q, found)) : print_meshes(&q, found);
    return rc || found->n_best ? rc : no_plan_status(true);
}
