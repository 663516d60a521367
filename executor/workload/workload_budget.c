/* workload_budget.c - computes the bytes of a budget, and a device's memory minus its reserve. */
#include "memplan/workloads/workload_budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor/workload/workload.h"
#include "formats/base/text.h"
#include "memplan/smallest.h"
#include "memplan/workloads/own_device.h"

const char *mp_budget_lacks_unit(const mp_budget *b, int64_t peak_bytes)
{
    const int64_t kib = 1024;
    if (b->kind != MP_BUDGET_BYTES || !b->bare || b->bytes >= kib || peak_bytes < kib * kib) return NULL;
    const char *is = mp_text("%.12s is %lld byte%s", b->bare, (long long)b->bytes, b->bytes == 1 ? "" : "s");
    const double value = strtod(b->bare, NULL), percent = value <= 1 ? 100 * value : value;
    if (value <= 0) return is;
    return percent <= 100 ? mp_text("%s; did you mean %g%%?", is, percent) : mp_text("%s; did you mean %gMiB?", is, value);
}

mp_status mp_budget_ends_of(const mp_budget *budgets, size_t n, bool has_arena, const mp_request *request, mp_budget_ends *out,
                            mp_error *err)
{
    const mp_step *steps;
    const mp_timeline *keep_all;
    bool is_relative = false;
    *out = (mp_budget_ends){.smallest_bytes = -1};
    MP_CHECK(mp_problem_keep_all(request->problem, &steps, &keep_all, err));
    out->peak_bytes = keep_all->peak_bytes;
    for (size_t k = 0; k < n; k++) is_relative |= budgets[k].kind == MP_BUDGET_ABOVE_MIN;
    if (!is_relative) return MP_OK;
    MP_CHECK(mp_smallest_plan(request, has_arena, &out->smallest, err));
    out->smallest_bytes = mp_plan_need(out->smallest);
    return MP_OK;
}

void mp_budget_ends_free(mp_budget_ends *ends)
{
    mp_plan_free(ends->smallest);
    *ends = (mp_budget_ends){.smallest_bytes = -1};
}

static void make_room(const mp_own_device *device, const mp_workload_options *o, mp_device_capacity *out)
{
    *out = (mp_device_capacity){.memory_bytes = device->profile.memory_bytes,
                                .reserve_bytes = o->has_reserve ? o->reserve_bytes : device->profile.reserve_bytes};
    snprintf(out->name, sizeof out->name, "%s", *device->name ? device->name : device->profile.name);
}

void mp_capacity_of_workload(const mp_workload *s, const mp_workload_options *o, mp_device_capacity *out)
{
    const mp_backend *backend = s->program ? s->program->backend : NULL;
    mp_own_device device = {0};
    *out = (mp_device_capacity){0};
    if (backend) device.profile = *backend->device(backend);
    if (backend || mp_own_device_read(s->graph->target, &device)) make_room(&device, o, out);
}

mp_status mp_capacity_of_options(const mp_workload_options *o, mp_device_capacity *out, mp_error *err)
{
    const mp_backend *backend = NULL;
    mp_own_device device = {0};
    MP_CHECK(mp_workload_device(o, &backend, &device, err));
    make_room(&device, o, out);
    return MP_OK;
}

int64_t mp_capacity_bytes(const mp_device_capacity *room)
{
    return room->memory_bytes > room->reserve_bytes ? room->memory_bytes - room->reserve_bytes : 0;
}

const char *mp_capacity_text(const mp_device_capacity *room)
{
    const char *tensors = mp_bytes_text(mp_capacity_bytes(room));
    if (room->visible_bytes)
        return mp_text("the %s of %s (%s for tensors)", mp_bytes_text(room->visible_bytes), room->name, tensors);
    const char *less = room->reserve_bytes ? mp_text(" less %s reserve", mp_bytes_text(room->reserve_bytes)) : "";
    return mp_text("the %s %s %s%s", mp_bytes_text(room->memory_bytes), room->is_free ? "free on" : "of", room->name, less);
}

mp_status mp_capacity_budget(const mp_workload *s, const mp_workload_options *o, const mp_budget *b, const mp_budget_ends *ends,
                             mp_device_capacity *room, int64_t *bytes, mp_error *err)
{
    const mp_backend *backend = s->program ? s->program->backend : NULL;
    mp_backend_memory now;
    mp_capacity_of_workload(s, o, room);
    if (b->kind == MP_BUDGET_FREE && (backend || !*room->name || !strcmp(room->name, "cpu"))) {
        MP_ENSURE(backend && backend->memory, err, MP_INVALID,
                  "--budget auto needs a GPU: --device cuda for the free memory of this machine's GPU, or the name of a card");
        MP_CHECK(backend->open(backend, err));
        MP_CHECK(backend->memory(backend, &now, err));
        room->memory_bytes = now.free_bytes;
        room->is_free = true;
    }
    if (mp_budget_is_of_device(b)) {
        MP_ENSURE(*room->name, err, MP_INVALID, "a budget is needed, because the device is not known: --budget 8GiB");
        MP_ENSURE(mp_capacity_bytes(room), err, MP_INFEASIBLE, "%s leaves nothing for a step; lower --reserve",
                  mp_capacity_text(room));
        *bytes = mp_capacity_bytes(room);
    } else {
        const char *why = mp_budget_lacks_unit(b, ends->peak_bytes);
        MP_ENSURE(!why, err, MP_INVALID, "--budget: %s", why);
        *bytes = mp_budget_resolve(b, ends->peak_bytes, ends->smallest_bytes);
    }
    return MP_OK;
}
