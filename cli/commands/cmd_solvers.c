/* cmd_solvers.c - lists the searchers. */
#include <stdio.h>

#include "cli/options/commands.h"
#include "memplan/solver.h"

int cmd_solvers(options *o)
{
    (void)o;
    for (size_t k = 0; k < mp_solver_count(); k++) {
        const mp_solver *row = mp_solver_row(k);
        printf("%-12s %s%s%s%s\n", row->name, row->summary, *row->source ? " (" : "", row->source, *row->source ? ")" : "");
    }
    return EXIT_DONE;
}
