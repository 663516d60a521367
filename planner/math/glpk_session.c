/* glpk_session.c - the environment of GLPK, silenced and limited; its error hook jumps back into the session. */
#include "planner/math/glpk_session.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include <glpk.h>

_Thread_local int mp_glpk_fail_after = -1, mp_glpk_most_mib = 1024;

void mp_glpk_point(void)
{
    if (mp_glpk_fail_after >= 0 && mp_glpk_fail_after-- == 0) glp_error("asked to fail\n");
}

static void on_error(void *data)
{
    longjmp(*(jmp_buf *)data, 1);
}

/* GLPK prints the text of an error even with its terminal off. */
static int say_nothing(void *data, const char *text)
{
    (void)data;
    (void)text;
    return 1;
}

mp_status mp_glpk_session(void (*work)(void *data), void *data, mp_error *err)
{
    jmp_buf escape;
    enum { CREATED = 0, PRESENT = 1 }; /* what glp_init_env returns; more: there is no environment */
    const int code = glp_init_env();
    if (code > PRESENT) return MP_FAIL(err, MP_NOMEM, "no memory for GLPK");
    const bool owned = code == CREATED;
    const int terminal = glp_term_out(GLP_OFF);
    glp_term_hook(say_nothing, NULL);
    glp_mem_limit(mp_glpk_most_mib);
    if (setjmp(escape)) {
        glp_free_env(); /* the hooks go with it */
        return MP_FAIL(err, MP_LIMIT, "GLPK failed");
    }
    glp_error_hook(on_error, &escape);
    work(data);
    glp_error_hook(NULL, NULL);
    glp_term_hook(NULL, NULL);
    glp_mem_limit(INT32_MAX);
    glp_term_out(terminal);
    if (owned) glp_free_env();
    return MP_OK;
}
