/* module_rows.c - prints the sums of operators per module. */
#include "cli/reports/module_rows.h"

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "formats/json/json.h"

enum { TITLE_MAX = 1024 };

mp_status report_modules(const mp_graph *graph, const mp_summary *summary, size_t rows, mp_summary_column column, mp_error *err)
{
    MP_OWNED mp_module_summary *modules = NULL;
    size_t n;
    char title[TITLE_MAX];
    MP_CHECK(mp_summary_modules(graph, summary, rows, column, &modules, &n, err));
    if (n < 2 && !(n && modules[0].n_repeats)) return MP_OK;
    screen_row("  %-30s %12s  %12s  %9s", "Modules", "kept", "parameters", "time");
    for (const mp_module_summary *m = modules; m < modules + n; m++)
        screen_row("  %-30s %12s  %12s  %9s", mp_module_summary_title(m, title, sizeof title), mp_bytes_text(m->saved_bytes),
                   mp_bytes_text(m->parameter_bytes), seconds_text((double)m->ticks * graph->tick_seconds));
    return MP_OK;
}

json_t *modules_json(const mp_graph *graph, const mp_summary *summary)
{
    MP_OWNED mp_module_summary *modules = NULL;
    size_t n;
    char title[TITLE_MAX];
    if (mp_summary_modules(graph, summary, 0, MP_SUMMARY_NETWORK, &modules, &n, NULL) != MP_OK) return NULL;
    json_t *list = json_array();
    for (const mp_module_summary *m = modules; m < modules + n; m++)
        mp_json_append(&list, json_pack("{s:o, s:I, s:I, s:f}", "module",
                                        mp_json_text(mp_module_summary_title(m, title, sizeof title)), "saved_bytes",
                                        (json_int_t)m->saved_bytes, "parameter_bytes", (json_int_t)m->parameter_bytes,
                                        "seconds", (double)m->ticks * graph->tick_seconds));
    return list;
}
