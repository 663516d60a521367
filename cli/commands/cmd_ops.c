/* cmd_ops.c - lists the operators, and what a backend runs of them. */
#include <stdio.h>

#include "cli/messages/messages.h"
#include "cli/messages/print.h"
#include "cli/options/commands.h"
#include "cli/reports/report.h"
#include "cli/subject/subject.h"
#include "estimator/model/ops.h"
#include "formats/base/text.h"
#include "formats/json/json.h"

/* What a backend runs of an operator. Which of its types and modes are among that is known only where it is used. */
static const char *runs_text(const mp_backend *backend, const mp_op *op)
{
    const mp_operator any = {.kind = op->name, .domain = op->domain, .op = op};
    const mp_kernel *kernel = backend->kernel(backend, &any);
    return !kernel ? "no" : kernel->backward ? "both" : "forward";
}

static const char *const gradients[] = {
    [MP_GRADIENT_NONE] = "none needed", [MP_GRADIENT_REFUSED] = "refused", [MP_GRADIENT_VIEW] = "view",
    [MP_GRADIENT_ALIAS] = "no node",    [MP_GRADIENT_ONE] = "one node",    [MP_GRADIENT_SPLIT] = "a node per input"};

static json_t *ops_json(const mp_backend *backend)
{
    json_t *list = json_array();
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *op = mp_op_row(k);
        mp_json_append(&list, json_pack("{s:s, s:s, s:i, s:s, s:s?, s:b, s:b, s:b, s:b}", "name", op->name, "domain",
                                        *op->domain ? op->domain : "ai.onnx", "since", op->since, "backward",
                                        gradients[op->gradient], "runs", backend ? runs_text(backend, op) : NULL, "product",
                                        op->flops != NULL, "folded", op->fold != NULL, "in_place",
                                        (op->traits & MP_TRAIT_IN_PLACE) != 0, "random", (op->traits & MP_TRAIT_RANDOM) != 0));
    }
    return json_pack("{s:s?, s:o}", "backend", backend ? backend->name : NULL, "operators", list);
}

int cmd_ops(options *o)
{
    const mp_backend *backend;
    own_device device;
    mp_error err = {0};
    if (subject_device(&o->model, &backend, &device, &err) != MP_OK) return input_failed(&err);
    if (o->talk.json) return print_json("ops", ops_json(backend));
    print("%-30s %-14s %5s  %-17s %s%s\n", "operator", "domain", "since", "backward",
          backend ? mp_text("%-9s", backend->name) : "", "notes");
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *op = mp_op_row(k);
        char line[160];
        int n = snprintf(line, sizeof line, "%-30s %-14s %5d  %-17s %s%s%s%s%s", op->name, *op->domain ? op->domain : "ai.onnx",
                         op->since, gradients[op->gradient], backend ? mp_text("%-9s", runs_text(backend, op)) : "",
                         op->flops ? "product " : "", op->fold ? "folded " : "",
                         op->traits & MP_TRAIT_IN_PLACE ? "in place " : "", op->traits & MP_TRAIT_RANDOM ? "random " : "");
        while (n > 0 && n < (int)sizeof line && line[n - 1] == ' ') line[--n] = 0;
        print("%s\n", line);
    }
    return EXIT_DONE;
}
