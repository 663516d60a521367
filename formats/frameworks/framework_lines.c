/* framework_lines.c - names, costs and the first lines, which are alike for all frameworks. */
#include "formats/frameworks/framework.h"

#include <limits.h>

const char *mp_framework_quoted(const char *name, int n, bool formatted, char *text)
{
    int length = 0;
    for (; *name && n-- > 0 && length + 3 < MP_FRAMEWORK_TEXT_MAX; name++) {
        if (*name == '"' || *name == '\\') text[length++] = '\\';
        if (formatted && (*name == '{' || *name == '}')) text[length++] = *name;
        text[length++] = *name;
    }
    text[length] = '\0';
    return text;
}

void mp_framework_list(mp_framework_writer *x, const char *name)
{
    char text[MP_FRAMEWORK_TEXT_MAX];
    mp_visible_put(&x->text, "    \"%s\",\n", mp_framework_quoted(name, INT_MAX, false, text));
}

const char *mp_framework_module(const mp_framework_writer *x, int module)
{
    static _Thread_local char text[MP_FRAMEWORK_TEXT_MAX];
    const char *name = x->modules->modules[module].name;
    return x->request->architecture ? mp_architecture_block_path(x->request->architecture, name, text, sizeof text) : name;
}

void mp_framework_cost(mp_framework_writer *x, int64_t peak_bytes, int64_t ticks)
{
    mp_visible_put(&x->text, "peak %s, time %s", mp_bytes_text(peak_bytes),
                   mp_extra_text((double)ticks, (double)x->request->plan->baseline_ticks));
}

void mp_framework_head(mp_framework_writer *x, const char *kind, int64_t peak_bytes, int64_t ticks)
{
    x->found = (mp_framework_code){.fits = true, .peak_bytes = peak_bytes, .ticks = ticks};
    mp_visible_put(&x->text, "# %s: %s\n#   ", x->request->title, kind);
    mp_framework_cost(x, peak_bytes, ticks);
    mp_text_put(&x->text, "\n#   the plan itself: ");
    mp_framework_cost(x, x->request->plan->peak_bytes, x->request->plan->ticks);
    mp_visible_put(&x->text, "; everything kept: peak %s\n", mp_bytes_text(x->request->plan->baseline_peak_bytes));
}

void mp_framework_origin(mp_framework_writer *x)
{
    if (x->request->architecture) mp_text_put(&x->text, "#   module names are those of Hugging Face's transformers 5\n");
}

void mp_framework_too_coarse(mp_framework_writer *x, const char *kind, int64_t peak_bytes)
{
    x->found = (mp_framework_code){.peak_bytes = peak_bytes, .ticks = -1};
    mp_visible_put(&x->text, "%s: %s %s, and the plan's budget is %s. Make a plan with a larger budget.\n", x->request->title,
                   kind, mp_bytes_text(peak_bytes), mp_bytes_text(x->budget_bytes));
}
