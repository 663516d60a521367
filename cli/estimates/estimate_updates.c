/* estimate_updates.c - compares the memory of all modes of --fuse, in which the optimizer's updates run at different times. */
#include "cli/estimates/estimate.h"
#include "formats/base/text.h"

#include <stdio.h>

#include "cli/messages/print.h"
#include "cli/messages/screen.h"
#include "formats/json/json.h"

static void print_line(const mp_update_effects *c, const char *what, size_t offset)
{
    const char *cells = "";
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++) {
        const int64_t bytes = *(const int64_t *)((const char *)&c->effects[fuse] + offset);
        cells = mp_text("%s%14s", cells, c->is_possible[fuse] ? mp_bytes_text(bytes) : "-");
    }
    screen_row("  %-36s%s", what, cells);
}

void print_update_comparison(const mp_update_effects *c)
{
    print("\n%-38s", "Updates, everything kept: --fuse");
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++) print("%14s", mp_fuse_name((mp_fuse)fuse));
    putchar('\n');
    print_line(c, "peak", offsetof(mp_update_effect, peak_bytes));
    print_line(c, "gradients of parameters, at the peak", offsetof(mp_update_effect, peak_gradient_bytes));
    print_line(c, "                         at most", offsetof(mp_update_effect, gradient_bytes));
    print_line(c, "                         the largest", offsetof(mp_update_effect, largest_gradient_bytes));
    print_line(c, mp_text("moved per step (%s of cache)", mp_bytes_text(c->cache_bytes)),
               offsetof(mp_update_effect, moved_bytes));
    if (!c->is_possible[MP_FUSE_BACKWARD]) puts("  (the global norm that --clip-norm needs is not known within backward)");
}

static json_t *effect_json(const mp_update_effect *e)
{
    return json_pack("{sI sI sI sI sI}", "peak_bytes", (json_int_t)e->peak_bytes, "gradient_bytes_at_peak",
                     (json_int_t)e->peak_gradient_bytes, "gradient_bytes", (json_int_t)e->gradient_bytes,
                     "largest_gradient_bytes", (json_int_t)e->largest_gradient_bytes, "moved_bytes",
                     (json_int_t)e->moved_bytes);
}

json_t *update_comparison_json(const mp_update_effects *c)
{
    json_t *json = json_pack("{s:I}", "cache_bytes", (json_int_t)c->cache_bytes);
    for (int fuse = 0; fuse < MP_N_FUSES; fuse++)
        mp_json_set(&json, mp_fuse_name((mp_fuse)fuse), c->is_possible[fuse] ? effect_json(&c->effects[fuse]) : json_null());
    return json;
}
