/* option_rows.c - the table of a workload's settings, generated from options.def, and the names that are allowed as values. */
#include "executor/workload/option_rows.h"

#include "estimator/base/names.h"
#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "executor/kernel/backend.h"
#include "formats/base/text.h"
#include "memplan/ranks/schedule.h"
#include "memplan/workloads/own_device.h"

MP_CHOICE_OF_NAMES(mp_loss_choice, MP_N_LOSSES, mp_loss_name((mp_loss)k))
MP_CHOICE_OF_NAMES(mp_optimizer_choice, MP_N_OPTIMIZERS, mp_optimizer_name((mp_optimizer)k))
MP_CHOICE_OF_NAMES(mp_fuse_choice, MP_N_FUSES, mp_fuse_name((mp_fuse)k))
MP_CHOICE_OF_NAMES(mp_rules_choice, MP_N_RULES, mp_rules_name((mp_rules)k))
MP_CHOICE_OF_NAMES(mp_pipeline_choice, MP_N_SCHEDULES, mp_schedule_name((mp_schedule)k))
MP_CHOICE_OF_WORDS(mp_dtype_choice, "fp32", "fp16", "bf16")
MP_CHOICE_OF_WORDS(mp_amp_choice, "none", "bf16", "fp16")
MP_CHOICE_OF_WORDS(mp_reduce_choice, "ordered", "fast")
MP_CHOICE_OF_NAMES(mp_rates_choice, MP_N_RATES_KINDS, mp_rates_name((mp_rates)k))

const char *mp_device_choice(size_t k)
{
    const char *name;
    if (k < mp_device_count()) return mp_device_row(k)->name;
    k -= mp_device_count();
    for (size_t b = 0; (name = mp_backend_name(b)); b++)
        if (!mp_device_find(name) && !k--) return name;
    return NULL;
}

bool mp_is_other_device(const char *name)
{
    return mp_backend_is_name(name) || mp_own_device_is(name) || mp_device_is_file(name);
}

bool mp_is_executor_rules(const char *name)
{
    return mp_names_are_alike(name, "memplan");
}

const char *mp_choice_taken(const mp_option_row *row, const char *value)
{
    for (size_t k = 0; row->choice(k); k++)
        if (mp_names_are_alike(row->choice(k), value)) return row->choice(k);
    return row->also && row->also(value) ? value : NULL;
}

/* options.def writes each field as model.FIELD; this struct has the member `model`, so that offsetof can compute the field's
 * offset */
typedef struct row_fields {
    mp_workload_options model;
} row_fields;

#define OPTION(ID, text, sort, field, takers, ...) \
    [MP_OPTION_##ID] = {.name = text, .kind = MP_VALUE_##sort, .offset = offsetof(row_fields, field), __VA_ARGS__},
const mp_option_row mp_workload_option_rows[MP_N_WORKLOAD_OPTIONS] = {
#include "executor/workload/options.def"
};
#undef OPTION

const char *mp_option_text(const mp_option_row *row, const void *base)
{
    const void *field = (const char *)base + row->offset;
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
        break;
    }
    return "";
}
