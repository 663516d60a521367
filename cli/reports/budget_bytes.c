/* budget_bytes.c - converts budgets to bytes. It computes the peak of keep-all, the smallest plan if a budget refers to it, and
 * the memory of a device minus the reserve. */
#include "cli/reports/budget_bytes.h"

#include <stdio.h>

#include "cli/messages/screen.h"
#include "cli/options/commands.h"
#include "cli/reports/progress.h"
#include "cli/subject/subject.h"
#include "memplan/smallest.h"

/* True if the plans of the command have offsets. A sweep has none, because it compares live bytes only. */
static bool has_arena(const options *o)
{
    return o->search.offsets && o->command != CMD_SWEEP;
}

static mp_status find_smallest(const options *o, const mp_request *request, budget_ends *ends, mp_error *err)
{
    MP_CLEARED_BY(progress_end) progress shown;
    mp_request asked = *request;
    asked.progress = progress_show;
    asked.progress_data = &shown;
    progress_start(&shown, o, INT64_MAX, 0);
    MP_CHECK(mp_smallest_plan(&asked, has_arena(o), &ends->smallest, err));
    ends->smallest_bytes = mp_plan_need(ends->smallest);
    return MP_OK;
}

mp_status budget_ends_of(const budget *budgets, size_t n, const options *o, const mp_request *request, budget_ends *out,
                         mp_error *err)
{
    const mp_step *steps;
    const mp_timeline *keep_all;
    bool is_relative = false;
    *out = (budget_ends){.smallest_bytes = -1};
    MP_CHECK(mp_problem_keep_all(request->problem, &steps, &keep_all, err));
    out->peak_bytes = keep_all->peak_bytes;
    for (size_t k = 0; k < n; k++) is_relative |= budgets[k].kind == BUDGET_ABOVE_MIN;
    return is_relative ? find_smallest(o, request, out, err) : MP_OK;
}

void budget_ends_free(budget_ends *ends)
{
    mp_plan_free(ends->smallest);
    *ends = (budget_ends){.smallest_bytes = -1};
}

int memory_read(const options *o, int64_t *memory_bytes)
{
    const char *text = o->search.memory, *command = commands[o->command].name;
    const char *why = mp_text("is a percentage, but %s needs a number of bytes, like 24GiB or 16e9", command);
    budget b = {.kind = BUDGET_DEVICE};
    if (text && (!budget_parse(text, &b, &why) || (b.kind != BUDGET_BYTES && b.kind != BUDGET_DEVICE)))
        return usage_error("--memory: '%s' %s", text, why);
    if (budget_lacks_unit(&b, INT64_MAX))
        return usage_error("--memory: %s is %lld bytes; did you mean %sGiB?", text, (long long)b.bytes, text);
    *memory_bytes = b.kind == BUDGET_DEVICE ? -1 : b.bytes;
    return EXIT_DONE;
}

static void make_room(const own_device *device, const options *o, device_room *out)
{
    *out = (device_room){.memory_bytes = device->profile.memory_bytes,
                         .reserve_bytes = option_given(o, OPT_RESERVE) ? o->search.reserve : device->profile.reserve_bytes};
    snprintf(out->name, sizeof out->name, "%s", *device->name ? device->name : device->profile.name);
}

void room_of_subject(const subject *s, const options *o, device_room *out)
{
    const mp_backend *backend = s->program ? s->program->backend : NULL;
    own_device device = {0};
    *out = (device_room){0};
    if (backend) device.profile = *backend->device(backend);
    if (backend || device_read(s->graph->target, &device)) make_room(&device, o, out);
}

mp_status room_of_options(const options *o, device_room *out, mp_error *err)
{
    const mp_backend *backend = NULL;
    own_device device = {0};
    MP_CHECK(subject_device(&o->model, &backend, &device, err));
    make_room(&device, o, out);
    return MP_OK;
}

int64_t room_bytes(const device_room *room)
{
    return room->memory_bytes > room->reserve_bytes ? room->memory_bytes - room->reserve_bytes : 0;
}

const char *room_text(const device_room *room)
{
    const char *less = room->reserve_bytes ? mp_text(" less %s reserve", mp_bytes_text(room->reserve_bytes)) : "";
    return mp_text("the %s %s %s%s", mp_bytes_text(room->memory_bytes), room->is_free ? "free on" : "of", room->name, less);
}

void report_above_room(const device_room *room, int64_t budget_bytes)
{
    if (*room->name && budget_bytes > room_bytes(room))
        screen_text(2, "  The budget exceeds the available memory: %s leaves %s for a step (--reserve).", room_text(room),
                    mp_bytes_text(room_bytes(room)));
}

mp_status room_budget(const subject *s, const options *o, const budget *b, const budget_ends *ends, device_room *room,
                      int64_t *bytes, mp_error *err)
{
    const mp_backend *backend = s->program ? s->program->backend : NULL;
    mp_backend_memory now;
    room_of_subject(s, o, room);
    if (b->kind == BUDGET_FREE) {
        MP_ENSURE(backend && backend->memory, err, MP_INVALID,
                  "--budget auto reads the free memory of the GPU, so it needs --device cuda");
        MP_CHECK(backend->open(backend, err));
        MP_CHECK(backend->memory(backend, &now, err));
        room->memory_bytes = now.free_bytes;
        room->is_free = true;
    }
    if (budget_is_of_device(b)) {
        MP_ENSURE(*room->name, err, MP_INVALID, "a budget is needed, because the device is not known: --budget 8GiB");
        MP_ENSURE(room_bytes(room), err, MP_INFEASIBLE, "%s leaves nothing for a step; lower --reserve", room_text(room));
        *bytes = room_bytes(room);
    } else {
        const char *why = budget_lacks_unit(b, ends->peak_bytes);
        MP_ENSURE(!why, err, MP_INVALID, "--budget: %s", why);
        *bytes = budget_resolve(b, ends->peak_bytes, ends->smallest_bytes);
    }
    return MP_OK;
}
