/* refused_kinds.c - counts unsupported operators by type, in the order of first occurrence. */
#include "estimator/model/refused_kinds.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "estimator/model/ops.h"

void mp_refused_kinds_add(mp_refused_kinds *refused, const mp_operator *op)
{
    int k = 0;
    for (; k < refused->n_kinds; k++) {
        const mp_refused_kind *known = &refused->kinds[k];
        if (!strcmp(known->kind, op->kind) && !strcmp(known->domain, op->domain) && known->version == op->version) break;
    }
    if (k == MP_REFUSED_KINDS_MAX) {
        refused->n_others++;
        return;
    }
    if (k == refused->n_kinds)
        refused->kinds[refused->n_kinds++] =
            (mp_refused_kind){.domain = op->domain, .kind = op->kind, .node = op->name, .version = op->version};
    refused->kinds[k].count++;
}

const char *mp_refused_kinds_text(const mp_refused_kinds *refused, char text[MP_REFUSED_TEXT])
{
    size_t used = 0;
    int others = refused->n_others;
    text[0] = 0;
    for (int k = 0; k < refused->n_kinds; k++) {
        const mp_refused_kind *r = &refused->kinds[k];
        const char *domain = strcmp(r->domain, "ai.onnx") ? r->domain : "";
        char version[48] = "", entry[200];
        if (mp_op_find(domain, r->kind, INT_MAX) && !mp_op_find(domain, r->kind, r->version))
            snprintf(version, sizeof version, " of operator set %d", r->version);
        snprintf(entry, sizeof entry, "%s%.40s%s%.60s%s (%d)", k ? ", " : "", domain, *domain ? "." : "", r->kind, version,
                 r->count);
        if (used + strlen(entry) + sizeof " and 1000000 others" > MP_REFUSED_TEXT) {
            others += r->count;
            continue;
        }
        memcpy(text + used, entry, strlen(entry) + 1);
        used += strlen(entry);
    }
    if (others) snprintf(text + used, MP_REFUSED_TEXT - used, " and %d others", others);
    return text;
}
