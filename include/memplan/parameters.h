/* parameters.h - first values of always-live storages: from the model's file if it has them, else by rule. */
#pragma once

#include "memplan/program.h"

typedef struct mp_parameter_source mp_parameter_source;

/* Opens the first values. `path` is the model's file; its initializers (embedded or external) are read on demand. NULL: no
 * file. Missing values are drawn with `seed`; with `draws_missing` also those whose external file is missing. The program's
 * model must outlive the source. Release with mp_parameter_source_free (NULL is allowed). MP_IO, MP_PARSE: the file, or a
 * missing external file without draws_missing. MP_NOMEM. O(tensors). */
mp_status mp_parameter_source_open(const mp_program *program, const char *path, uint64_t seed, bool draws_missing,
                                   mp_parameter_source **out, mp_error *err);
void mp_parameter_source_free(mp_parameter_source *source);
MP_OWNER(mp_parameter_source_free, mp_parameter_source)

/* Counts the parameters with first values, and those among them that are drawn because the file lacks values. */
void mp_parameter_source_count(const mp_parameter_source *source, size_t *n_parameters, size_t *n_drawn);
