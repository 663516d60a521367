/* attention_report.c - the groups of attention operators as text and as JSON. */
#include "cli/reports/attention_report.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/print.h"
#include "executor/run/providers.h"
#include "formats/json/json.h"

typedef struct attention {
    mp_provider_group groups[MP_PROVIDER_GROUPS];
    size_t n, n_in_library, n_own;
} attention;

static const char own[] = "own kernels";

static attention count(const mp_program *program)
{
    attention a = {0};
    if (program) a.n = mp_program_providers(program, "ScaledDotProductAttention", a.groups);
    for (size_t g = 0; g < a.n; g++)
        *(strcmp(a.groups[g].provider, own) ? &a.n_in_library : &a.n_own) += a.groups[g].n_operators;
    return a;
}

void report_attention(const mp_program *program)
{
    const attention a = count(program);
    if (a.n) print("  attention: %zu in cuDNN, %zu in %s\n", a.n_in_library, a.n_own, own);
    for (size_t g = 0; g < a.n; g++)
        if (a.groups[g].reason[0])
            print("    %zu in %s: %s\n", a.groups[g].n_operators, a.groups[g].provider, a.groups[g].reason);
}

void attention_json(const mp_program *program, json_t **json)
{
    const attention a = count(program);
    if (!a.n) return;
    json_t *groups = json_array();
    for (size_t g = 0; groups && g < a.n; g++)
        json_array_append_new(groups, json_pack("{ss sI ss}", "provider", a.groups[g].provider, "operators",
                                                (json_int_t)a.groups[g].n_operators, "reason", a.groups[g].reason));
    mp_json_set(json, "attention",
                groups
                    ? json_pack("{sI sI so}", "cudnn", (json_int_t)a.n_in_library, "own", (json_int_t)a.n_own, "groups", groups)
                    : NULL);
}

void report_attention_form(const mp_attention_report *form)
{
    if (!form->n && !form->n_missed) return;
    print("\nAttention: %d recognised", form->n);
    if (form->n_missed) print(", %d written out, whose scores are kept", form->n_missed);
    putchar('\n');
    if (!form->n_missed) return;
    const bool is_operator = *form->kind;
    print("  at %s: %s%s%s%s%s\n", form->missed, form->breaks, is_operator ? " (" : "", form->kind, is_operator ? ") " : " ",
          form->why);
}

json_t *attention_form_json(const mp_attention_report *form)
{
    if (!form->n_missed) return json_pack("{si si}", "recognised", form->n, "written_out", 0);
    return json_pack("{si si s{ss ss ss ss}}", "recognised", form->n, "written_out", form->n_missed, "first", "product",
                     form->missed, "at", form->breaks, "op", form->kind, "why", form->why);
}
