#include <stdio.h>

#include "cli/commands.h"
#include "estimator/ops.h"

int cmd_ops(options *o)
{
    static const char *const gradients[] = {
        [MP_GRADIENT_NONE] = "none needed", [MP_GRADIENT_REFUSED] = "refused", [MP_GRADIENT_VIEW] = "view",
        [MP_GRADIENT_ALIAS] = "no node",    [MP_GRADIENT_ONE] = "one node",    [MP_GRADIENT_SPLIT] = "a node per input"};
    (void)o;
    printf("%-30s %-14s %5s  %-17s %s\n", "operator", "domain", "since", "backward", "notes");
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *op = mp_op_row(k);
        char line[160];
        int n = snprintf(line, sizeof line, "%-30s %-14s %5d  %-17s %s%s%s%s", op->name, *op->domain ? op->domain : "ai.onnx",
                         op->since, gradients[op->gradient], op->flops ? "product " : "", op->fold ? "folded " : "",
                         op->traits & MP_TRAIT_IN_PLACE ? "in place " : "", op->traits & MP_TRAIT_RANDOM ? "random " : "");
        while (n > 0 && n < (int)sizeof line && line[n - 1] == ' ') line[--n] = 0;
        puts(line);
    }
    return EXIT_DONE;
}
