/* framework.h - lines that several frameworks have in common (names, costs, first lines), and selective checkpointing. */
#pragma once

#include "formats/base/visible_format.h"
#include "memplan/framework_code.h"
#include "planner/segments/module_blocks.h"

typedef struct mp_framework_writer {
    const mp_framework_request *request;
    mp_modules *modules;
    bool *chosen;            /* per module: true if it is wrapped in a checkpoint */
    int64_t budget_bytes;    /* bytes of the plan's budget; if the plan has no budget, its peak */
    mp_framework_code found; /* the result, except its text */
    mp_text_builder text;
} mp_framework_writer;

enum { MP_FRAMEWORK_TEXT_MAX = 1024 };

/* Copies the first n bytes of a name (or all of it) to `text`, escaped for a Python string, so that no name can end the string.
 * `formatted`: the string is an f-string. Text beyond MP_FRAMEWORK_TEXT_MAX bytes is truncated. Returns `text`. */
const char *mp_framework_quoted(const char *name, int n, bool formatted, char *text);
/* Writes one element of a Python list of names on its own line, such as: "layers.3", */
void mp_framework_list(mp_framework_writer *x, const char *name);
/* Returns the name of a module in the user's program. A network known by name has the module paths of Hugging Face's
 * transformers, such as "transformer.h.3". The text is valid until the next call. */
const char *mp_framework_module(const mp_framework_writer *x, int module);
/* Writes the peak and time of a setting, as "peak 4.79 GiB, time +10.0 %". */
void mp_framework_cost(mp_framework_writer *x, int64_t peak_bytes, int64_t ticks);
/* Writes the first lines: peak and time of the plan, and peak and time of the framework's setting that comes closest to it. */
void mp_framework_head(mp_framework_writer *x, const char *kind, int64_t peak_bytes, int64_t ticks);
/* Writes the source of the module names, if they are not from the user's file. */
void mp_framework_origin(mp_framework_writer *x);
/* Writes that no setting of the framework fits the budget. peak_bytes is the smallest peak of all settings of this kind. */
void mp_framework_too_coarse(mp_framework_writer *x, const char *kind, int64_t peak_bytes);

/* Writes a policy for PyTorch's selective checkpointing, and the blocks to which it applies. Errors as mp_module_blocks_find.
 * O(2^8 * log(blocks)) timelines. */
mp_status mp_framework_selective(mp_framework_writer *x, mp_error *err);
