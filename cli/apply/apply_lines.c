/* apply_lines.c - the first lines of the answer of `memplan apply`, which are the same for all frameworks. */
#include "cli/apply/apply.h"

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

const char *applied_module(const applied *x, int module)
{
    static _Thread_local char text[APPLIED_TEXT_MAX];
    const char *name = x->modules->modules[module].name;
    return x->architecture ? mp_architecture_block_path(x->architecture, name, text, sizeof text) : name;
}

void applied_cost(const applied *x, int64_t peak_bytes, int64_t ticks)
{
    print_to(x->to, "peak %s, time %s", mp_bytes_text(peak_bytes), extra_text((double)ticks, (double)x->plan->baseline_ticks));
}

void applied_head(applied *x, const char *what, int64_t peak_bytes, int64_t ticks)
{
    *x->found = (applied_means){.fits = true, .peak_bytes = peak_bytes, .ticks = ticks};
    print_to(x->to, "# %s: %s\n#   ", x->workload->title, what);
    applied_cost(x, peak_bytes, ticks);
    print_to(x->to, "\n#   the plan itself: ");
    applied_cost(x, x->plan->peak_bytes, x->plan->ticks);
    print_to(x->to, "; everything kept: peak %s\n", mp_bytes_text(x->plan->baseline_peak_bytes));
}

void applied_origin(const applied *x)
{
    if (x->architecture) print_to(x->to, "#   module names are those of Hugging Face's transformers 5\n");
}

mp_status applied_too_coarse(applied *x, const char *what, int64_t peak_bytes)
{
    *x->found = (applied_means){.peak_bytes = peak_bytes, .ticks = -1};
    print_to(x->to, "%s: %s %s, and the plan's budget is %s. Make a plan with a larger budget.\n", x->workload->title, what,
             mp_bytes_text(peak_bytes), mp_bytes_text(x->budget_bytes));
    return MP_OK;
}
