/* parameters.h - first values of storages that are always live: from the model's file where it has them, else by rule. */
#pragma once

#include "memplan/program.h"

typedef struct mp_parameter_source mp_parameter_source;

/* Opens the first values. `path` is the model's file, whose initializers (embedded or external) are read on demand (NULL:
 * it has none); `seed` draws the others, with `draws_missing` also those whose external file is missing. Release with
 * mp_parameter_source_free (NULL is fine). The program's model must outlive it. MP_IO, MP_PARSE: the file, or an
 * external one that is missing without draws_missing; MP_NOMEM. O(tensors). */
mp_status mp_parameter_source_open(const mp_program *program, const char *path, uint64_t seed, bool draws_missing,
                                   mp_parameter_source **out, mp_error *err);
void mp_parameter_source_free(mp_parameter_source *source);
MP_OWNER(mp_parameter_source_free, mp_parameter_source)

/* Counts the parameters that it has first values of, and those of them that are drawn because the file has none. */
void mp_parameter_source_count(const mp_parameter_source *source, size_t *n_parameters, size_t *n_drawn);
