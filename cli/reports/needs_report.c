/* needs_report.c - prints the memory that a process requires on a card. */
#include "cli/reports/needs_report.h"

#include "cli/messages/screen.h"
#include "formats/base/text.h"
#include "formats/json/json.h"

void report_needs(const mp_needs *needs, const char *title)
{
    if (needs->process_bytes <= 0) return;
    const char *nccl = needs->nccl_bytes ? mp_text(" (NCCL %s)", mp_bytes_text(needs->nccl_bytes)) : "";
    const char *like = needs->n_jobs ? mp_text(" (%lld measured jobs of the kind %s, median error %.1f %%)",
                                               (long long)needs->n_jobs, needs->family, (double)needs->median_error / 10)
                                     : " (assumed: no measured job resembles this network)";
    const char *instead = needs->expandable_bytes >= 0 ? mp_text(", or in %s with PYTORCH_ALLOC_CONF=expandable_segments:True",
                                                                 mp_bytes_text(needs->expandable_bytes))
                                                       : "";
    screen_text(2, "%s: tensors %s, reserved %s, process %s%s; 19 of 20 such jobs run in %s%s%s.", title,
                mp_bytes_text(needs->tensors_bytes), mp_bytes_text(needs->reserved_bytes), mp_bytes_text(needs->process_bytes),
                nccl, mp_bytes_text(needs->likely_bytes), like, instead);
}

const char *needs_verdict(const mp_needs *needs, const char *device)
{
    const char *promise = needs->n_jobs ? ": 19 of 20 such jobs run in" : ", assumed to need at most";
    return mp_text("%s%s %s of %s", device, promise, mp_bytes_text(needs->likely_bytes), mp_bytes_text(needs->card_bytes));
}

int needs_lines(const mp_needs *needs)
{
    if (needs->process_bytes <= 0) return 0;
    return 3 + (needs->expandable_bytes >= 0);
}

json_t *needs_json(const mp_needs *needs)
{
    if (needs->process_bytes <= 0) return json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:s, s:I, s:f}", "tensors_bytes", (json_int_t)needs->tensors_bytes,
                     "reserved_bytes", (json_int_t)needs->reserved_bytes, "nccl_bytes", (json_int_t)needs->nccl_bytes,
                     "process_bytes", (json_int_t)needs->process_bytes, "likely_bytes", (json_int_t)needs->likely_bytes,
                     "expandable_bytes", mp_json_integer_if(needs->expandable_bytes >= 0, needs->expandable_bytes),
                     "card_bytes", (json_int_t)needs->card_bytes, "family", needs->family, "n_jobs", (json_int_t)needs->n_jobs,
                     "median_error", (double)needs->median_error / 1000);
}
