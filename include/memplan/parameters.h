/* parameters.h - initial values of static storages, from the model's file or from an initialisation rule. */
#pragma once

#include "memplan/program.h"

typedef struct mp_parameter_source mp_parameter_source;

/* Opens a source of initial values. `path` is the model's file (NULL: no file); its initializers (embedded or external) are
 * read on demand. Values that the file lacks are drawn at random with `seed`. With `draws_missing`, values whose external
 * file is missing are also drawn. The program's model must outlive the source. Release with mp_parameter_source_free (NULL
 * is allowed). MP_IO, MP_PARSE: the file cannot be read or is malformed, or an external file is missing without
 * draws_missing. MP_NOMEM. O(tensors). */
mp_status mp_parameter_source_open(const mp_program *program, const char *path, uint64_t seed, bool draws_missing,
                                   mp_parameter_source **out, mp_error *err);
void mp_parameter_source_free(mp_parameter_source *source);
MP_OWNER(mp_parameter_source_free, mp_parameter_source)

/* Counts the parameters with initial values, and the part of them that is drawn at random because the file lacks values. */
void mp_parameter_source_count(const mp_parameter_source *source, size_t *n_parameters, size_t *n_drawn);
