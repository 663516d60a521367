/* cmd_solvers.c - lists the searchers. */
#include <stdio.h>

#include "cli/messages/print.h"
#include "cli/options/commands.h"
#include "cli/reports/report.h"
#include "formats/json/json.h"
#include "memplan/solver.h"

static json_t *solvers_json(void)
{
    json_t *list = json_array();
    for (size_t k = 0; k < mp_solver_count(); k++) {
        const mp_solver *row = mp_solver_row(k);
        mp_json_append(&list, json_pack("{s:s, s:s, s:s}", "name", row->name, "summary", row->summary, "source", row->source));
    }
    return json_pack("{s:o}", "solvers", list);
}

int cmd_solvers(options *o)
{
    if (o->talk.json) return print_json("solvers", solvers_json());
    for (size_t k = 0; k < mp_solver_count(); k++) {
        const mp_solver *row = mp_solver_row(k);
        print("%-12s %s%s%s%s\n", row->name, row->summary, *row->source ? " (" : "", row->source, *row->source ? ")" : "");
    }
    return EXIT_DONE;
}
