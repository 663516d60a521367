/* error.c - records failures in an mp_error, which keeps only the first failure. */
#include "memplan/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "estimator/base/visible_text.h"

const char *mp_status_text(mp_status status)
{
#define MP_STATUS_TEXT(name, text) text,
    static const char *const texts[] = {MP_STATUS_LIST(MP_STATUS_TEXT)};
#undef MP_STATUS_TEXT
    return (unsigned)status < MP_N_STATUS ? texts[status] : "unknown status";
}

mp_status mp_raise(mp_error *err, mp_status code, const char *source, int source_line, const char *format, ...)
{
    if (err && err->code == MP_OK) {
        err->code = code;
        err->source = source;
        err->source_line = source_line;
        va_list args;
        va_start(args, format);
        char text[sizeof err->message];
        vsnprintf(text, sizeof text, format, args);
        mp_visible_text(text, err->message, sizeof err->message);
        va_end(args);
    }
    return code;
}

void mp_error_locate(mp_error *err, const char *input, int line, int column)
{
    if (!err || err->code == MP_OK || err->input[0]) return;
    snprintf(err->input, sizeof err->input, "%s", input);
    err->line = line;
    err->column = column;
}
