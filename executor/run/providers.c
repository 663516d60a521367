/* providers.c - groups forward nodes by what their prepared calls say of themselves. */
#include "executor/run/providers.h"

#include <string.h>

#include "executor/run/program.h"

static bool is_of(const mp_provider_group *group, const mp_call *call)
{
    return !strcmp(group->provider, call->provider) && !strcmp(group->reason, call->reason);
}

size_t mp_program_providers(const mp_program *p, const char *kind, mp_provider_group groups[MP_PROVIDER_GROUPS])
{
    size_t n = 0;
    for (size_t k = 0; k < p->n_nodes; k++) {
        const mp_operands *x = &p->nodes[k].operands;
        const mp_call *call = &p->nodes[k].call;
        size_t g = 0;
        if (!x->op || x->is_backward || !call->provider || strcmp(x->op->kind, kind) != 0) continue;
        while (g < n && !is_of(&groups[g], call)) g++;
        if (g == MP_PROVIDER_GROUPS) g--;
        if (g == n) groups[n++] = (mp_provider_group){call->provider, call->reason, 0};
        groups[g].n_operators++;
    }
    return n;
}
