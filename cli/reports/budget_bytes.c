/* budget_bytes.c - reads --memory. Finds the smallest plan and keep-all, to which a relative budget refers, and shows a
 * progress line meanwhile. */
#include "cli/reports/budget_bytes.h"

#include "cli/messages/screen.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/reports/progress.h"
#include "executor/workload/workload.h"
#include "formats/base/text.h"
#include "memplan/budget.h"
#include "memplan/smallest.h"
#include "memplan/workloads/workload_budget.h"

/* True if the plans of the command have offsets. A sweep has none, because it compares live bytes only. */
static bool has_arena(const options *o)
{
    return o->search.offsets && o->command != CMD_SWEEP;
}

mp_status find_budget_ends(const mp_budget *budgets, size_t n, const options *o, const mp_request *request, mp_budget_ends *out,
                           mp_error *err)
{
    MP_CLEARED_BY(progress_end) progress shown;
    mp_request asked = *request;
    asked.progress = progress_show;
    asked.progress_data = &shown;
    progress_start(&shown, o, INT64_MAX, 0);
    return mp_budget_ends_of(budgets, n, has_arena(o), &asked, out, err);
}

int memory_read(const options *o, int64_t *memory_bytes)
{
    const char *text = o->search.memory, *command = commands[o->command].name;
    const char *why = mp_text("is a percentage, but %s needs a number of bytes, like 24GiB or 16e9", command);
    mp_budget b = {.kind = MP_BUDGET_DEVICE};
    if (text && (!mp_budget_parse(text, &b, &why) || (b.kind != MP_BUDGET_BYTES && b.kind != MP_BUDGET_DEVICE)))
        return usage_error("--memory: '%s' %s", text, why);
    if (mp_budget_lacks_unit(&b, INT64_MAX))
        return usage_error("--memory: %s is %lld bytes; did you mean %sGiB?", text, (long long)b.bytes, text);
    *memory_bytes = b.kind == MP_BUDGET_DEVICE ? -1 : b.bytes;
    return EXIT_DONE;
}

void report_above_room(const mp_device_capacity *room, int64_t budget_bytes)
{
    if (*room->name && budget_bytes > mp_capacity_bytes(room))
        screen_text(2, "  The budget exceeds the available memory: %s leaves %s for a step (--reserve).",
                    mp_capacity_text(room), mp_bytes_text(mp_capacity_bytes(room)));
}
