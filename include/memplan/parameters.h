/* parameters.h - the first values of what is always live: from the model's file where it has them, else by rule. */
#pragma once

#include "memplan/program.h"

typedef struct mp_parameter_source mp_parameter_source;

/* `path`: the model's file, whose initializers (embedded or external) are read when they are asked for; `seed` draws the rest.
 * `draws_missing`: also those that the file says are in another file, which is not there. Release with
 * mp_parameter_source_free (NULL is fine). The program's model must outlive it. MP_IO, MP_PARSE: the file, or without
 * draws_missing such another one; MP_NOMEM. O(tensors): values are read when they are asked for. */
mp_status mp_parameter_source_open(const mp_program *program, const char *path, uint64_t seed, bool draws_missing,
                                   mp_parameter_source **out, mp_error *err);
void mp_parameter_source_free(mp_parameter_source *source);
MP_OWNER(mp_parameter_source_free, mp_parameter_source)

/* Of how many parameters it has the first values, and how many of them are drawn because the file has none. */
void mp_parameter_source_count(const mp_parameter_source *source, size_t *n_parameters, size_t *n_drawn);
