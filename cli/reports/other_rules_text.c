/* other_rules_text.c - prints the peak of keep-all under the other rules: PyTorch's or those of memplan's executor. */
#include "cli/reports/other_rules_text.h"

#include "formats/base/text.h"

const char *other_rules_name(const mp_other_rules *other)
{
    return other->rules == MP_RULES_PYTORCH ? "in PyTorch" : "in memplan";
}

const char *other_rules_text(const mp_other_rules *other, int64_t peak_bytes)
{
    if (!other->is_known || other->peak_bytes == peak_bytes) return "";
    return mp_text(", %s %s", mp_bytes_text(other->peak_bytes), other_rules_name(other));
}

const char *other_rules_option(const mp_other_rules *other)
{
    return other->rules == MP_RULES_PYTORCH ? "--rules pytorch" : "--rules executor";
}

json_t *other_rules_json(const mp_other_rules *other)
{
    if (!other->is_known) return json_null();
    return json_pack("{s:s, s:I}", "rules", mp_rules_name(other->rules), "peak_bytes", (json_int_t)other->peak_bytes);
}
