/* workload_needs.c - the card of a workload, and the memory of the process that trains it. */
#include "memplan/workloads/workload_needs.h"

#include <stdio.h>
#include <string.h>

#include "estimator/base/names.h"
#include "estimator/model/ops.h"
#include "executor/workload/workload.h"
#include "memplan/workloads/process_memory.h"

/* True if the network has matrix products, for which PyTorch allocates a workspace of cuBLAS. */
static bool has_products(const mp_model *m)
{
    for (size_t k = 0; m && k < m->n_operators; k++) {
        const mp_operator *op = &m->operators[k];
        if (!op->removed && op->op && op->op->flops && !(op->op->traits & (MP_TRAIT_TILED | MP_TRAIT_CONVOLVES))) return true;
    }
    return false;
}

/* ---- the family ---- */

static int n_communicators(const mp_mesh *mesh)
{
    int n = 0;
    for (int k = 0; k < MP_N_DIMS; k++) n += mesh->size[k] > 1;
    return n;
}

static bool has_trait(const mp_model *m, unsigned trait)
{
    for (size_t k = 0; k < m->n_operators; k++) {
        const mp_operator *op = &m->operators[k];
        if (!op->removed && op->op && op->op->traits & trait) return true;
    }
    return false;
}

/* True if the network contains attention, as one operator or as several. */
static bool has_attention(const mp_workload *w)
{
    const mp_workload_details *d = w->details;
    return has_trait(w->model, MP_TRAIT_TILED) || d->attention.n_missed > 0 || d->inference.has_softmax;
}

/* Returns the family of measured jobs (process.def) that the network resembles. */
static const char *family_of(const mp_workload *w, const mp_workload_options *o)
{
    static const char *const other = "other network";
    const bool is_fp32 = mp_names_are_alike(o->dtype, "fp32") && mp_names_are_alike(o->amp, "none");
    if (mp_workload_rules(w) != MP_RULES_PYTORCH) return "other"; /* the executor has an arena, no caching allocator */
    if (!w->model || !is_fp32 || o->lora.n || n_communicators(&o->mesh)) return other; /* measured jobs have one GPU */
    const bool attends = has_attention(w), convolves = has_trait(w->model, MP_TRAIT_CONVOLVES);
    const bool looks_up = has_trait(w->model, MP_TRAIT_GATHER);
    if (attends && looks_up && !convolves) return w->file ? "exported transformer" : "known transformer";
    return convolves && !attends && !looks_up ? "exported convolutional network" : other;
}

/* ---- the card ---- */

/* Finds the card of a device's text form: its name for mp_process_memory_of, and the bytes that programs see; 0: unknown. */
static void find_card(const char *text, char name[MP_DEVICE_TITLE_MAX], int64_t *bytes)
{
    mp_own_device device = {0};
    *name = 0;
    *bytes = 0;
    if (!mp_own_device_read(text, &device)) return;
    snprintf(name, MP_DEVICE_TITLE_MAX, "%.*s", (int)strcspn(text, ","), text);
    const mp_device *row = mp_device_find(name);
    mp_process_memory m = {0};
    if (!row || !mp_process_memory_of(name, "other", 0, &m)) return;
    const double visible = (double)m.card_bytes / (double)row->memory_bytes; /* 98 to 99 % on cards with known memory */
    *bytes = (int64_t)((double)device.profile.memory_bytes * visible);
}

/* True if the settings or the text of the device state the reserve. */
static bool has_reserve(const mp_workload_options *o, const char *device)
{
    mp_own_device own;
    return o->has_reserve || (mp_own_device_read(device, &own) && own.has_reserve);
}

int64_t mp_visible_bytes_of_options(const mp_workload_options *o)
{
    char name[MP_DEVICE_TITLE_MAX];
    mp_process_memory m;
    int64_t bytes;
    if (mp_backend_is_name(o->device) || has_reserve(o, o->device)) return 0;
    find_card(o->device, name, &bytes);
    return mp_process_memory_of(name, "other", 0, &m) ? bytes : 0;
}

/* ---- the process ---- */

void mp_workload_terms_of(const mp_workload *w, const mp_workload_options *o, mp_workload_terms *out)
{
    const mp_backend *backend = w->program ? w->program->backend : NULL;
    const char *network = w->ranks.network.inside.name;
    const bool caches = mp_workload_rules(w) == MP_RULES_PYTORCH;
    out->process = (mp_needs_terms){.card = out->card,
                                    .family = family_of(w, o),
                                    .arena_bytes = caches ? -1 : 0,
                                    .has_products = has_products(w->model),
                                    .network = out->network,
                                    .n_communicators = n_communicators(&o->mesh)};
    snprintf(out->network, sizeof out->network, "%s", network ? network : "");
    if (backend) {
        snprintf(out->card, sizeof out->card, "%s", backend->device(backend)->title);
        out->process.card_bytes = backend->device(backend)->memory_bytes;
    } else {
        find_card(w->graph->target, out->card, &out->process.card_bytes);
    }
}

mp_status mp_workload_needs(const mp_workload *w, const mp_workload_options *o, const mp_step *steps,
                            const mp_timeline *timeline, int64_t arena_bytes, mp_needs *out, mp_error *err)
{
    mp_workload_terms terms;
    mp_workload_terms_of(w, o, &terms);
    if (terms.process.arena_bytes >= 0)
        terms.process.arena_bytes = arena_bytes >= 0 ? arena_bytes : timeline->peak_bytes - timeline->static_bytes;
    return mp_needs_of(w->graph, steps, timeline, &terms.process, out, err);
}

mp_status mp_workload_needs_of_plan(const mp_workload *w, const mp_workload_options *o, const mp_plan *plan, mp_needs *out,
                                    mp_error *err)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_CHECK(mp_timeline_build(w->graph, plan->steps, plan->n_steps, &timeline, err));
    return mp_workload_needs(w, o, plan->steps, timeline, plan->arena_bytes, out, err);
}

void mp_capacity_take_needs(const mp_workload *w, const mp_workload_options *o, const mp_needs *needs, int64_t tensors_bytes,
                            mp_device_capacity *room)
{
    const bool runs = w->program && w->program->backend;
    if (has_reserve(o, w->graph->target) || runs || needs->likely_bytes < 0 || !needs->card_bytes || !*room->name) return;
    room->reserve_bytes = room->memory_bytes - mp_needs_room(needs, tensors_bytes);
    room->visible_bytes = needs->card_bytes;
}
