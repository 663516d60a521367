/* agreed.c - the options on which the ranks of one training must agree, as facts that they compare. */
#include "cli/options/agreed.h"

#include <string.h>

#include "cli/options/options.h"
#include "estimator/base/memory.h"
#include "formats/base/text.h"

/* Returns the value of an option as text, which mp_text allocates. */
static const char *value_text(const options *o, const mp_option_row *row)
{
    const void *field = (const char *)o + row->offset;
    switch (row->kind) {
    case MP_VALUE_FLAG:
    case MP_VALUE_OFF:
        return *(const bool *)field ? "yes" : "no";
    case MP_VALUE_TEXT:
    case MP_VALUE_CHOICE:
        return *(const char *const *)field ? *(const char *const *)field : "";
    case MP_VALUE_COUNT:
    case MP_VALUE_BYTES:
        return mp_text("%lld", (long long)*(const int64_t *)field);
    case MP_VALUE_PERCENT:
    case MP_VALUE_POSITIVE:
        return mp_text("%.17g", *(const double *)field);
    case MP_VALUE_LIST:
    case MP_VALUE_BINDING:
    case MP_VALUE_MESH:
        break; /* options of these kinds are part of the graph, so no row of the option table marks them with `agrees` */
    }
    return "";
}

mp_status options_facts(const options *o, mp_pool *pool, mp_fact *facts, size_t *n, mp_error *err)
{
    *n = 0;
    for (int k = 0; k < N_OPTIONS; k++) {
        const mp_option_row *row = &option_rows[k];
        if (row->agrees == MP_AGREES_NOT || !(row->commands >> o->command & 1)) continue;
        const char *value = row->agrees == MP_AGREES_VALUE ? value_text(o, row) : option_given(o, (option_id)k) ? "yes" : "no";
        const char *name = mp_text("value of --%s", row->name);
        const char *kept = mp_pool_text(pool, value, strlen(value));
        facts[*n] = (mp_fact){mp_pool_text(pool, name, strlen(name)), kept, kept ? strlen(kept) : 0};
        MP_ENSURE(kept && facts[*n].name, err, MP_NOMEM, "out of memory");
        ++*n;
    }
    return MP_OK;
}
