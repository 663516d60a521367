/* cmd_parallel.c - the command parallel: finds the fastest ways to split a network over devices (meshes). For each mesh that is
 * not among the best, it states the reason. */
#include <stdio.h>
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/budget_bytes.h"
#include "cli/reports/mesh.h"
#include "cli/reports/needs_report.h"
#include "cli/reports/plan.h"
#include "cli/reports/report.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_mesh.h"
#include "executor/workload/workload_offload.h"
#include "formats/json/json.h"
#include "memplan/budget.h"
#include "memplan/ranks/exact_mesh.h"
#include "memplan/ranks/meshes.h"
#include "memplan/workloads/own_device.h"

/* ---- the request ---- */

enum {
    SAMPLES_PER_DEVICE = 4, /* default of --global-batch: samples per device in a training step */
    MOST_REMEDIES = 6,
    DOUBLINGS = 5, /* if no mesh fits, the number of devices is doubled at most this often */
    MOST_NOTES = 3
};
/* fraction of a step's seconds: meshes that are slower than the fastest by at most this fraction are ranked by simplicity */
static const double alike = 0.03;

typedef struct question {
    const options *asked;
    mp_meshes_request request;
    mp_link link; /* to the host's memory */
    char name[128], within[MP_TEXT_MAX];
    mp_spending spending; /* seconds of the last graph per family of kernels, if is_achieved */
    bool is_achieved;
    char accuracy[MP_ACCURACY_TEXT]; /* accuracy of the best mesh's seconds; "": no achieved rates */
    mesh_rate rate;
    mp_exact_mesh exact;
    int64_t withheld_bytes; /* memory that the ranks' processes need besides tensors and the reserve */
} question;

/* Builds the graph of one rank of a mesh. This graph does not sum gradients over ranks, because gradients first accumulate over
 * micro-batches. */
static mp_status graph_of(void *data, const mp_mesh *mesh, int64_t micro_batch, mp_graph **out, mp_error *err)
{
    question *q = data;
    options o = *q->asked;
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    o.model.mesh = (mp_mesh){.size = {mesh->size[MP_DIM_TP], mesh->size[MP_DIM_EP], 1, mesh->size[MP_DIM_EP], 1},
                             .sequence = mesh->sequence,
                             .data = mesh->data};
    o.model.batch = micro_batch;
    o.model.accumulate = 2;
    o.model.leaves_sums = true;
    o.model.shares_all = mesh->zero == 3;
    o.model.offload = o.model.link = (mp_text_list){0};
    o.model.offload_state = false;
    o.model.pipeline_schedule = NULL;
    o.model.chunks = 0;
    o.talk.hides_accuracy = true;
    MP_CHECK(load_workload(o.operands[0], &o, &s, err));
    mesh_rate_of_model(&s, &q->rate);
    q->is_achieved = *mp_workload_accuracy(&s) != 0;
    q->spending = s.details->spending;
    snprintf(q->name, sizeof q->name, "%s", s.graph->name && *s.graph->name ? s.graph->name : s.path);
    MP_ENSURE(!mesh->data || s.details->split.part_bytes < s.details->split.whole_bytes, err, MP_UNSUPPORTED,
              "this network has no weight that is worth splitting beside a split batch");
    *out = mp_workload_take_graph(&s);
    return MP_OK;
}

/* Reads the options for copies to host memory. */
static mp_status read_host(question *q, const mp_own_device *device, mp_error *err)
{
    mp_host *host = &q->request.host;
    bool has_host;
    MP_CHECK(mp_workload_host(&q->asked->model, device, &has_host, &q->link, &host->bytes, err));
    host->link = has_host ? &q->link : NULL;
    host->takes_state = q->asked->model.offload_state;
    return MP_OK;
}

/* Reads --mesh. The directions that it names are fixed; all other directions are free for the search. */
static void read_fixed(const options *o, mp_meshes_request *r)
{
    if (!option_given(o, OPT_MESH)) return;
    r->fixed = o->model.mesh;
    r->ranks.mesh.sequence = r->fixed.sequence;
    r->ranks.mesh.scatter = r->fixed.scatter;
}

/* Converts the options to a request of the search for meshes. If r->memory_bytes is 0, the memory of the device is used. */
static mp_status fill(question *q, mp_error *err)
{
    const options *o = q->asked;
    mp_meshes_request *r = &q->request;
    mp_device_capacity room;
    const mp_backend *backend;
    mp_own_device device;
    MP_CHECK(mp_capacity_of_options(&o->model, &room, err));
    if (!r->memory_bytes) r->memory_bytes = mp_capacity_bytes(&room);
    snprintf(q->within, sizeof q->within, "%s", mp_bytes_text(r->memory_bytes));
    MP_CHECK(mp_workload_device(&o->model, &backend, &device, err));
    mesh_rate_of_device(&o->model, &device.profile, &q->rate);
    MP_CHECK(read_host(q, &device, err));
    const char *network = o->model.network ? o->model.network : mp_network_of_device(device.profile.name);
    MP_CHECK(mp_workload_network(network, &r->ranks.network, err));
    r->ranks.mesh.sequence = true;
    read_fixed(o, r);
    if (option_given(o, OPT_EXPLAIN)) r->explained = &o->search.explain;
    r->ranks.bucket_bytes = o->model.bucket;
    r->ranks.rules = (mp_rules)mp_rules_find(o->model.rules);
    r->ranks.units = o->model.fsdp_units.items;
    r->ranks.n_units = o->model.fsdp_units.n;
    r->devices = o->search.devices;
    r->global_batch = o->search.global_batch ? o->search.global_batch : SAMPLES_PER_DEVICE * r->devices;
    r->micro_batch = o->search.micro_batch_size;
    r->is_scheduled = o->model.pipeline_schedule != NULL;
    if (r->is_scheduled) r->schedule = (mp_schedule)mp_schedule_find(o->model.pipeline_schedule);
    r->n_chunks = r->is_scheduled && r->schedule == MP_SCHEDULE_INTERLEAVED ? o->model.chunks ? o->model.chunks : 2 : 1;
    r->shares_apart = o->model.amp && r->ranks.rules == MP_RULES_PYTORCH;
    r->alike = alike;
    r->graph = graph_of;
    r->data = q;
    q->exact = (mp_exact_mesh){.path = o->operands[0], .options = &o->model, .memory_bytes = r->memory_bytes};
    /* the graphs of the ranks do not contain the slowdown of compute beside collectives */
    if (!r->host.link && r->ranks.network.slowdown == 0) r->judge = mp_exact_mesh_judge;
    r->judge_data = &q->exact;
    return MP_OK;
}

static int read_parallel_options(question *q)
{
    const options *o = q->asked;
    mp_error err = {0};
    mp_budget b = {.kind = MP_BUDGET_DEVICE};
    const char *why = "is a percentage, but parallel needs a number of bytes, like 70GiB";
    if (o->search.memory &&
        (!mp_budget_parse(o->search.memory, &b, &why) || (b.kind != MP_BUDGET_BYTES && b.kind != MP_BUDGET_DEVICE)))
        return usage_error("--memory: '%s' %s", o->search.memory, why);
    if (!o->search.devices) return usage_error("parallel needs the number of devices; add --devices N");
    if (b.kind == MP_BUDGET_BYTES) q->request.memory_bytes = b.bytes;
    return fill(q, &err) == MP_OK ? EXIT_DONE : input_failed(&err);
}

/* Searches for meshes. A mesh must leave room for the ranks' processes, unless the user gives --memory or --reserve. */
static mp_status search(question *q, mp_meshes **found, mp_error *err)
{
    const options *o = q->asked;
    if (o->search.memory || o->model.has_reserve || !option_given(o, OPT_DEVICE))
        return mp_meshes_search(&q->request, found, err);
    MP_CHECK(mp_exact_mesh_search(&q->request, &q->exact, &q->withheld_bytes, found, err));
    snprintf(q->within, sizeof q->within, "%s", mp_bytes_text(q->request.memory_bytes));
    return MP_OK;
}

/* Counts the FLOPs of one sample, in the graph of a single device. If this graph cannot be built, the FLOPs remain unknown. */
static void count_flops(question *q, const mp_meshes *found)
{
    const mp_mesh one = {.size = {1, 1, 1, 1, 1}};
    const int64_t batches[] = {1, found->choices->micro_batch};
    for (size_t k = 0; found->n_best && k < 2 && q->rate.flops <= 0; k++) {
        MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
        if (graph_of(q, &one, batches[k], &graph, NULL) == MP_OK) q->rate.flops = mesh_rate_flops(graph) / (double)batches[k];
    }
}

/* Tells the accuracy of the best mesh's seconds, from the graph of one of its ranks. A warning is printed at once. */
static void tell_accuracy(question *q, const mp_meshes *found)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    const mp_mesh_choice *best = found->choices;
    if (!found->n_best || graph_of(q, &best->mesh, best->micro_batch, &graph, NULL) != MP_OK || !q->is_achieved) return;
    if (!mp_accuracy_tell(&q->spending, q->request.devices, q->accuracy))
        complain("%s: %s", q->asked->operands[0], q->accuracy);
}

/* ---- remedies: options that may help if no mesh fits ---- */

/* A remedy: changed options with which a mesh may fit. */
typedef struct remedy {
    char text[64];
    options changed;
    question question;
    /* result of the search with the changed options; NULL: no mesh fits, or the model does not allow the change */
    mp_meshes *found;
} remedy;

typedef struct remedy_list {
    size_t n;
    remedy items[MOST_REMEDIES];
} remedy_list;

static void search_remedy(const question *q, remedy *r)
{
    /* errors of this search are not printed: if the model does not allow the change, the remedy is not offered */
    mp_error ignored = {0};
    r->question = (question){.asked = &r->changed, .request.memory_bytes = q->request.memory_bytes};
    if (fill(&r->question, &ignored) != MP_OK) return;
    if (mp_meshes_search(&r->question.request, &r->found, &ignored) == MP_OK && r->found->n_best) return;
    mp_meshes_free(r->found);
    r->found = NULL;
}

static remedy *add_remedy(const question *q, remedy_list *list, const char *text)
{
    remedy *r = &list->items[list->n++];
    *r = (remedy){.changed = *q->asked};
    snprintf(r->text, sizeof r->text, "%s", text);
    return r;
}

/* Returns the smallest floor of all choices. The floor of a choice is the largest floor of its devices. */
static int64_t least_floor(const mp_meshes *found)
{
    int64_t least = INT64_MAX;
    for (size_t k = 0; k < found->n; k++)
        if (found->choices[k].floor_bytes < least) least = found->choices[k].floor_bytes;
    return least;
}

/* Searches again with each remedy. One remedy is a larger number of devices, which is doubled until a mesh fits. Twice the
 * devices halve the floor at best, so numbers of devices whose floor cannot fit are skipped. */
static void find_remedies(const question *q, const mp_meshes *refused, remedy_list *list)
{
    static const char *host[] = {"host"}, *adapters[] = {"16:*"};
    const options *o = q->asked;
    if (!strcmp(mesh_rate_type(&o->model), "fp32")) add_remedy(q, list, "--dtype bf16")->changed.model.dtype = "bf16";
    if (!q->request.host.link) {
        mp_workload_options *m = &add_remedy(q, list, "--offload host --offload-state")->changed.model;
        m->offload = (mp_text_list){.n = 1, .items = host};
        m->offload_state = true;
    }
    if (!o->model.lora.n && !o->model.freeze.n)
        add_remedy(q, list, "--lora 16:*")->changed.model.lora = (mp_text_list){.n = 1, .items = adapters};
    if (o->search.micro_batch_size > 1) add_remedy(q, list, "--micro-batch-size 1")->changed.search.micro_batch_size = 1;
    if (option_given(o, OPT_MESH)) add_remedy(q, list, "without --mesh")->changed.given[OPT_MESH] = false;
    for (size_t k = 0; k < list->n; k++) search_remedy(q, &list->items[k]);
    for (int k = 1; k <= DOUBLINGS; k++) {
        if (least_floor(refused) >> k > q->request.memory_bytes) continue;
        const long long devices = (long long)o->search.devices << k, batch = (long long)q->request.global_batch << k;
        remedy *more = add_remedy(q, list, mp_text("--devices %lld --global-batch %lld", devices, batch));
        more->changed.search.devices = devices;
        more->changed.search.global_batch = batch;
        search_remedy(q, more);
        if (more->found) return;
        list->n--;
    }
}

static void free_remedies(remedy_list *list)
{
    for (size_t k = 0; k < list->n; k++) mp_meshes_free(list->items[k].found);
}

/* ---- notes after the verdict ---- */

typedef struct note_list {
    size_t n;
    char items[MOST_NOTES][256];
} note_list;

/* Prints up to three notes: that processes need more than the reserve, that the fastest mesh leaves little memory free, and
 * that --dtype was not given. */
static void write_notes(const question *q, const mp_meshes *found, note_list *list)
{
    const char *tight = found->n_best ? mesh_tight_text(found, q->request.memory_bytes) : NULL;
    if (q->withheld_bytes)
        snprintf(list->items[list->n++], sizeof *list->items,
                 "The ranks' processes need %.40s more than the reserve, so tensors may take %.40s.",
                 mp_bytes_text(q->withheld_bytes), mp_bytes_text(q->request.memory_bytes));
    if (tight) snprintf(list->items[list->n++], sizeof *list->items, "%s", tight);
    if (!option_given(q->asked, OPT_DTYPE) && !option_given(q->asked, OPT_AMP))
        snprintf(
            list->items[list->n++], sizeof *list->items,
            "Planned in %s because neither --dtype nor --amp is given. Most trainings use 16 bits: --dtype bf16 or --amp bf16.",
            q->rate.type);
}

/* ---- the answer as JSON ---- */

static json_t *remedies_json(const remedy_list *list)
{
    json_t *json = json_array();
    for (size_t k = 0; k < list->n; k++) {
        if (!list->items[k].found) continue;
        const mp_mesh_choice *c = list->items[k].found->choices;
        mp_json_append(&json,
                       json_pack("{s:s, s:s, s:f, s:I}", "change", list->items[k].text, "mesh", mp_mesh_write(&c->mesh).text,
                                 "seconds", c->seconds, "peak_bytes", (json_int_t)c->peak_bytes));
    }
    return json;
}

static json_t *parallel_json(const question *q, const mp_meshes *found, const note_list *notes, const remedy_list *remedies)
{
    json_t *best = json_array(), *others = json_array(), *said = json_array();
    for (size_t k = 0; k < found->n; k++)
        mp_json_append(k < found->n_best ? &best : &others, mesh_choice_json(&found->choices[k], &q->request, &q->rate));
    for (size_t k = 0; k < notes->n; k++) mp_json_append(&said, json_string(notes->items[k]));
    json_t *json = json_pack("{s:o, s:s, s:o, s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:o}", "model", mp_json_text(q->name), "type",
                             q->rate.type, "tokens_per_sample", mp_json_integer_if(q->rate.tokens, q->rate.tokens), "devices",
                             (json_int_t)q->request.devices, "memory_bytes", (json_int_t)q->request.memory_bytes,
                             "global_batch", (json_int_t)q->request.global_batch, "network",
                             mp_text("%s+%s", q->request.ranks.network.inside.name, q->request.ranks.network.across.name),
                             "notes", said, "best", best, "set_aside", others, "remedies", remedies_json(remedies));
    accuracy_json(q->accuracy, &json);
    return json;
}

/* ---- the answer as text ---- */

static void print_verdict(const question *q, const mp_meshes *found)
{
    const mp_mesh_choice *best = found->choices;
    if (found->n_best)
        screen_verdict(q->asked->talk.color, SCREEN_GOOD, "%s in %s on %s device%s of %s: %s a step, %s, of %s samples.",
                       q->name, q->rate.type, count_text(q->request.devices), q->request.devices == 1 ? "" : "s", q->within,
                       mesh_seconds_text(best), mesh_choice_name(best), count_text(q->request.global_batch));
    else
        screen_verdict(q->asked->talk.color, SCREEN_BAD, "%s in %s on %s device%s of %s: no mesh fits.", q->name, q->rate.type,
                       count_text(q->request.devices), q->request.devices == 1 ? "" : "s", q->within);
}

/* For the mesh named by --explain: prints its fastest choice, the reason why the mesh is not the best, and its stages. */
static int explain(const question *q, const mp_meshes *found)
{
    const mp_mesh *mesh = q->request.explained;
    const mp_mesh_choice *shown = NULL;
    for (size_t k = 0; k < found->n && !shown; k++)
        if (mp_mesh_is_same(&found->choices[k].mesh, mesh)) shown = &found->choices[k];
    if (!shown)
        return usage_error("--explain: '%s' is not among the tried meshes of %s devices", mp_mesh_write(mesh).text,
                           count_text(q->request.devices));
    screen_text(2, "%s with %lld x %lld: %s.", mp_mesh_write(mesh).text, (long long)shown->micro_batch,
                (long long)shown->n_micro_batches, mesh_reason_text(shown, found->choices, q->within));
    if (shown->stages) mesh_print_stages(shown, q->request.host.link);
    return EXIT_DONE;
}

/* Prints the remedies with which a mesh fits. */
static void print_remedies(const question *q, const remedy_list *list)
{
    bool any = false;
    for (size_t k = 0; k < list->n; k++) any |= list->items[k].found != NULL;
    if (any)
        screen_row("\n  %-36s %10s  %10s  %s", "a mesh fits with", "a step", "peak", "mesh");
    else
        screen_text(2, "\nNeither 16 bits, host memory, LoRA nor %d times as many devices make a mesh fit.", 1 << DOUBLINGS);
    for (size_t k = 0; k < list->n; k++) {
        if (!list->items[k].found) continue;
        const mp_mesh_choice *c = list->items[k].found->choices;
        screen_row("  %-36s %10s  %10s  %s", list->items[k].text, mesh_seconds_text(c), mp_bytes_text(c->peak_bytes),
                   mesh_choice_name(c));
    }
    screen_text(2, "Recomputation%s is counted already.",
                q->request.micro_batch ? "" : ", down to micro-batches of one sample,");
}

/* Prints the memory that the fullest rank's process requires, and whether this exceeds the memory of its card. */
static void print_needs(const mp_mesh_choice *c)
{
    report_needs(&c->needs, "The fullest rank needs");
    if (c->needs.likely_bytes > c->needs.card_bytes && c->needs.expandable_bytes < 0)
        screen_text(2, "This is more than the %s that programs see of a card; --memory lowers the limit.",
                    mp_bytes_text(c->needs.card_bytes));
    if (c->judge == MP_JUDGE_BLOCKS)
        screen_text(2, "Only the ranks' graphs show the memory of the allocator and of the process: plan --mesh.");
}

static int print_meshes(const question *q, const mp_meshes *found, const note_list *notes, const remedy_list *remedies)
{
    print_verdict(q, found);
    if (q->asked->talk.quiet) return EXIT_DONE;
    if (found->n_best) mesh_rate_print(&q->rate, q->request.devices, q->request.global_batch, found->choices->seconds);
    if (found->n_best) report_accuracy(q->accuracy);
    for (size_t k = 0; k < notes->n; k++) screen_text(2, "%s", notes->items[k]);
    putchar('\n');
    if (q->request.explained) return explain(q, found);
    if (found->n_best) {
        mesh_print_best(found);
        puts("\nStages of the first:");
        mesh_print_stages(found->choices, q->request.host.link);
        if (option_given(q->asked, OPT_DEVICE)) print_needs(found->choices);
        putchar('\n');
    }
    screen_text(0, "Of %zu meshes, micro-batches and schedules:", found->n);
    mesh_print_set_aside(found, q->within);
    if (!found->n_best) print_remedies(q, remedies);
    putchar('\n');
    print_verdict(q, found);
    return EXIT_DONE;
}

int cmd_parallel(options *o)
{
    mp_error err = {0};
    question q = {.asked = o};
    MP_OWNED_BY(mp_meshes_free) mp_meshes *found = NULL;
    MP_CLEARED_BY(free_remedies) remedy_list remedies = {.n = 0};
    note_list notes = {.n = 0};
    const int rc = read_parallel_options(&q);
    if (rc) return rc;
    if (mp_workload_is_graph(o->operands[0]))
        return usage_error("%s: parallel needs a model, but the input is a training graph", o->operands[0]);
    if (search(&q, &found, &err) != MP_OK) return input_failed(&err);
    tell_accuracy(&q, found);
    if (found->n_best)
        count_flops(&q, found);
    else if (o->talk.json || !(o->talk.quiet || option_given(o, OPT_EXPLAIN)))
        find_remedies(&q, found, &remedies);
    write_notes(&q, found, &notes);
    const int said = o->talk.json ? print_json("parallel", parallel_json(&q, found, &notes, &remedies))
                                  : print_meshes(&q, found, &notes, &remedies);
    return said || found->n_best ? said : no_plan_status(true);
}
