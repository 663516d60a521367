/* cmd_ops.c - lists the operators, and what a backend runs of them. */
#include <stdio.h>

#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/reports/subject.h"
#include "estimator/model/ops.h"

/* What a backend runs of an operator. Which of its types and modes are among that is known only where it is used. */
static const char *runs_text(const mp_backend *backend, const mp_op *op)
{
    const mp_operator any = {.kind = op->name, .domain = op->domain, .op = op};
    const mp_kernel *kernel = backend->kernel(backend, &any);
    return !kernel ? "no" : kernel->backward ? "both" : "forward";
}

int cmd_ops(options *o)
{
    static const char *const gradients[] = {
        [MP_GRADIENT_NONE] = "none needed", [MP_GRADIENT_REFUSED] = "refused", [MP_GRADIENT_VIEW] = "view",
        [MP_GRADIENT_ALIAS] = "no node",    [MP_GRADIENT_ONE] = "one node",    [MP_GRADIENT_SPLIT] = "a node per input"};
    const mp_backend *backend;
    own_device device;
    mp_error err = {0};
    char name[32] = "", runs[32] = "";
    if (subject_device(o, &backend, &device, &err) != MP_OK) return input_failed(&err);
    if (backend) snprintf(name, sizeof name, "%-9s", backend->name);
    printf("%-30s %-14s %5s  %-17s %s%s\n", "operator", "domain", "since", "backward", name, "notes");
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *op = mp_op_row(k);
        char line[160];
        if (backend) snprintf(runs, sizeof runs, "%-9s", runs_text(backend, op));
        int n = snprintf(line, sizeof line, "%-30s %-14s %5d  %-17s %s%s%s%s%s", op->name, *op->domain ? op->domain : "ai.onnx",
                         op->since, gradients[op->gradient], runs, op->flops ? "product " : "", op->fold ? "folded " : "",
                         op->traits & MP_TRAIT_IN_PLACE ? "in place " : "", op->traits & MP_TRAIT_RANDOM ? "random " : "");
        while (n > 0 && n < (int)sizeof line && line[n - 1] == ' ') line[--n] = 0;
        puts(line);
    }
    return EXIT_DONE;
}
