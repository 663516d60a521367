/* estimate_savings.c - prints how much memory other options would save. */
#include <stdio.h>

#include "cli/estimates/estimate.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "formats/json/json.h"

void report_savings(const mp_savings *s, size_t most)
{
    if (!s->n) return;
    puts("What would help, each by itself:");
    for (size_t k = 0; k < s->n; k++) {
        const mp_saving *row = &s->rows[k];
        const int64_t saved = s->peak_bytes - row->peak_bytes;
        size_t n_better = 0;
        for (size_t i = 0; i < s->n; i++) n_better += s->rows[i].peak_bytes < row->peak_bytes;
        if (n_better >= most) continue;
        screen_row("  %-38s %12s  %+6.1f %%%s", row->what, mp_text("-%s", mp_bytes_text(saved)),
                   -100.0 * (double)saved / (double)s->peak_bytes,
                   row->ticks >= 0 ? mp_text("  %s time", mp_extra_text((double)row->ticks, (double)s->ticks)) : "");
    }
}

json_t *savings_json(const mp_savings *s)
{
    json_t *list = json_array();
    for (size_t k = 0; k < s->n; k++) {
        const mp_saving *row = &s->rows[k];
        mp_json_append(&list, json_pack("{s:o, s:I, s:o}", "what", mp_json_text(row->what), "peak_bytes",
                                        (json_int_t)row->peak_bytes, "overhead",
                                        mp_json_real_if(row->ticks >= 0 && s->ticks > 0,
                                                        s->ticks > 0 ? (double)row->ticks / (double)s->ticks - 1 : 0)));
    }
    return list;
}
