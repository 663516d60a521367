/* applied.c - the lines that every framework's part of apply begins with. */
#include "cli/apply/applied.h"

#include <limits.h>

#include "cli/messages/print.h"
#include "cli/messages/quantities.h"

const char *applied_quoted(const char *name, int n, bool formatted, char *text)
{
    int length = 0;
    for (; *name && n-- > 0 && length + 3 < APPLIED_TEXT_MAX; name++) {
        if (*name == '"' || *name == '\\') text[length++] = '\\';
        if (formatted && (*name == '{' || *name == '}')) text[length++] = *name;
        text[length++] = *name;
    }
    text[length] = '\0';
    return text;
}

void applied_list(const applied *x, const char *name)
{
    char text[APPLIED_TEXT_MAX];
    print_to(x->to, "    \"%s\",\n", applied_quoted(name, INT_MAX, false, text));
}

void applied_cost(const applied *x, int64_t peak_bytes, int64_t ticks)
{
    char bytes[QUANTITY_MAX], extra[QUANTITY_MAX];
    print_to(x->to, "peak %s, time %s", bytes_short(peak_bytes, bytes),
             extra_text((double)ticks, (double)x->plan->baseline_ticks, extra));
}

void applied_head(applied *x, const char *what, int64_t peak_bytes, int64_t ticks)
{
    char title[256], bytes[QUANTITY_MAX];
    *x->found = (applied_means){.fits = true, .peak_bytes = peak_bytes, .ticks = ticks};
    print_to(x->to, "# %s: %s\n#   ", subject_title(x->subject, title, sizeof title), what);
    applied_cost(x, peak_bytes, ticks);
    print_to(x->to, "\n#   the plan itself: ");
    applied_cost(x, x->plan->peak_bytes, x->plan->ticks);
    print_to(x->to, "; everything kept: peak %s\n", bytes_short(x->plan->baseline_peak_bytes, bytes));
}

mp_status applied_too_coarse(applied *x, const char *what, int64_t peak_bytes)
{
    char title[256], need[QUANTITY_MAX], budget[QUANTITY_MAX];
    *x->found = (applied_means){.peak_bytes = peak_bytes, .ticks = -1};
    print_to(x->to, "%s: %s %s, and the plan's budget is %s. Make a plan with a larger budget.\n",
             subject_title(x->subject, title, sizeof title), what, bytes_short(peak_bytes, need),
             bytes_short(x->budget_bytes, budget));
    return MP_OK;
}
